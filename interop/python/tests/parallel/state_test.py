"""Who is where, by the names of vLLM and of Megatron."""

import importlib.util
import os
import pathlib
import signal
import threading
import time

import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402


def groups(comm):
    with tp.initialize(comm, tensor_parallel_size=2, pipeline_parallel_size=2, data_parallel_size=2,
                       enable_expert_parallel=True) as p:
        p.tensor.barrier()
        return {axis: getattr(p, axis).ranks for axis in ("tensor", "pipeline", "data", "context", "model", "expert")}, (
            p.get_tensor_model_parallel_rank(), p.get_pipeline_model_parallel_world_size(),
            p.get_data_parallel_src_rank(), p.is_pipeline_last_stage())


def test_groups_of_eight_ranks():
    found = ranks.run(8, groups)
    axes, megatron = found[5]
    assert axes == {"tensor": [4, 5], "pipeline": [1, 5], "data": [5, 7], "context": [5], "model": [0, 1, 4, 5],
                    "expert": [4, 5, 6, 7]}
    assert megatron == (1, 2, 5, True)


def megatron(comm):
    with tp.initialize_model_parallel(2, 1, context_parallel_size=2, ulysses_size=2) as p:
        return p.get_context_parallel_group().ranks, p.ulysses.size, p.ring.size, p.data_context.ranks


def test_megatrons_names():
    assert ranks.run(4, megatron)[1] == ([1, 3], 2, 1, [1, 3])


def pictures(comm, folder):
    with tp.initialize(comm, tensor_parallel_size=2, pipeline_parallel_size=2) as p:
        return p.draw(os.path.join(folder, f"{comm.rank}.svg"))


def test_draw(tmp_path):
    drawn = ranks.run(4, pictures, str(tmp_path))
    assert drawn[1].splitlines()[1:4] == ["           replica 0", "stage 0    [  0 1* ]", "stage 1    [  2  3 ]"]
    picture = (tmp_path / "3.svg").read_text(encoding="utf-8")
    assert picture.count(">stage ") == 2 and picture.count("<rect") == 1 + 2 + 4


def picture_of_the_page(comm, folder):
    with tp.initialize(comm, tensor_parallel_size=2, pipeline_parallel_size=2, enable_expert_parallel=True) as p:
        p.draw(os.path.join(folder, f"{comm.rank}.svg"))


def test_the_picture_of_the_page(tmp_path):
    ranks.run(8, picture_of_the_page, str(tmp_path))
    page = pathlib.Path(__file__).parents[4] / "docs/pictures/parallel_ranks.svg"
    assert page.read_text(encoding="utf-8") == (tmp_path / "0.svg").read_text(encoding="utf-8")


def misfits(comm):
    said = []
    for sizes in ({"tensor_parallel_size": 3}, {"data_parallel_size": 4}, {"context_parallel_size": 2, "ulysses_size": 3},
                  {"enable_expert_parallel": True, "expert_parallel_size": 2}):
        with pytest.raises(tutti.InvalidArgumentError) as raised:
            tp.initialize(comm, **sizes)
        said.append(str(raised.value))
    with pytest.raises(tutti.InvalidUsageError, match="initialize"):
        tp.current()
    comm.barrier()
    return said


def test_sizes_that_do_not_multiply_to_the_world():
    for said in ranks.run(2, misfits):
        assert "3" in said[0] and "2" in said[0]
        assert "4" in said[1] and "2" in said[1]
        assert "3" in said[2] and "2" in said[2]
        assert "enable_expert_parallel" in said[3]


def closed(comm):
    p = tp.initialize(comm, tensor_parallel_size=2)
    group = p.tensor
    group.barrier()
    p.close()
    p.close()
    with pytest.raises(tutti.InvalidUsageError, match="closed"):
        p.tensor  # noqa: B018
    with pytest.raises(tutti.InvalidUsageError, match="group \"tp\" is closed"):
        group.barrier()


def test_close():
    ranks.run(2, closed)


def torch_groups(comm, file, backend):
    import torch
    import torch.distributed
    if backend == "tutti":
        import tutti_torch  # noqa: F401
    store = torch.distributed.FileStore(file, comm.size)
    torch.distributed.init_process_group(backend, store=store, rank=comm.rank, world_size=comm.size)
    with tp.initialize(comm, tensor_parallel_size=2) as p:
        group = p.torch_group("data_parallel")
        x = torch.tensor([float(comm.rank)])
        torch.distributed.all_reduce(x, group=group)
        assert x.item() == sum(p.data.ranks) and torch.distributed.get_backend(group) == backend
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("backend", ["gloo", "tutti"])
def test_groups_of_torch_distributed(tmp_path, backend):
    pytest.importorskip("torch")
    if backend == "tutti" and importlib.util.find_spec("tutti_torch") is None:
        pytest.skip("needs the package tutti-torch, which the ctest python_torch has")
    ranks.run(4, torch_groups, str(tmp_path / "store"), backend)


def ctrl_c(comm):
    with pytest.raises(KeyboardInterrupt):
        with tp.initialize(comm, tensor_parallel_size=2) as p:
            p.tensor.barrier()
            if comm.rank == 1:
                time.sleep(600)
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            p.tensor.barrier()


def test_ctrl_c_ends_a_wait():
    job = ranks.Job(2, ctrl_c)
    job.processes[0].join(30)
    assert not job.processes[0].is_alive()
    job.processes[1].kill()
    assert job.outcomes()[0][0] == "value"
