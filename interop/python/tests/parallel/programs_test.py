"""examples/gpt: every split has one rank's losses and one rank's tokens. `pytest -s` prints how close they are."""

import pathlib
import re
import sys

import pytest
import ranks

pytest.importorskip("torch")
pytest.importorskip("tutti.parallel", exc_type=ImportError)

PROGRAMS = pathlib.Path(__file__).resolve().parents[4] / "examples/gpt"
SMALL = ["--layers", "4", "--hidden", "32", "--length", "44"]
TRAINING = ["--batch", "8", "--steps", "6", *SMALL]
CLOSE = 2e-5  # sums over ranks are rounded in another order


def program(name):
    sys.path.insert(0, str(PROGRAMS))
    import torch
    torch.set_num_threads(1)
    return __import__(name)


def trained(comm, flags):
    train = program("train")
    return train.train(train.parse([*TRAINING, *flags.split()]), comm)


def generated(comm, flags):
    generate = program("generate")
    words = flags.split(" ")  # the first one is the model, which may be empty
    return generate.generate(generate.parse([*words, "--tokens", "10", "--interval", "0.002", *SMALL]), comm)


@pytest.fixture(scope="module")
def one_rank():
    """The losses and tokens of one rank, with and without experts."""
    return {experts: (ranks.run(1, trained, f"--experts {experts}")[0], ranks.run(1, generated, f" --experts {experts}")[0])
            for experts in (0, 3, 5)}


def experts_of(flags):
    found = re.search(r"--experts (\d)", flags)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(("size", "flags"), [
    (2, "-tp 2"), (2, "-tp 2 --sequence-parallel"), (4, "-tp 4"), (2, "-pp 2"), (4, "-pp 4 --schedule GPipe"),
    (2, "-pp 2 --schedule Interleaved1F1B --chunks 2"), (2, "-pp 2 --schedule ZB-H1"), (2, "-pp 2 --schedule ZB-V"),
    (2, "-dp 2"), (2, "-cp 2"), (3, "-dp 1 -cp 3"), (4, "-tp 2 -cp 2 --sequence-parallel"), (8, "-tp 2 -pp 2 -dp 2"),
    (2, "-tp 2 --experts 3"), (2, "-dp 2 --experts 3 --enable-expert-parallel"),
    (2, "-tp 2 --experts 3 --enable-expert-parallel"),
    (2, "-tp 2 --sequence-parallel --experts 3 --enable-expert-parallel"), (3, "-cp 3 --experts 3 --enable-expert-parallel"),
    (4, "-tp 2 -pp 2 --experts 3 --enable-expert-parallel")])
def test_losses_are_one_ranks(one_rank, size, flags):
    expected, _ = one_rank[experts_of(flags)]
    for losses in ranks.run(size, trained, flags):
        apart = max(abs(ours - theirs) / theirs for ours, theirs in zip(losses, expected))
        assert len(losses) == len(expected) and apart < CLOSE
    print(f"\n{size} ranks, {flags}: {'equal bits' if losses == expected else f'{apart:.1e}'}")
    assert expected[-1] < expected[0]


@pytest.mark.parametrize(("size", "flags"), [
    (2, "-tp 2"), (4, "-tp 4"), (2, "-pp 2"), (3, "-pp 3"), (3, "-cp 3"), (4, "-tp 2 -cp 2"),
    (2, "-tp 2 --experts 3 --enable-expert-parallel"), (4, "-tp 2 -pp 2 --experts 3 --enable-expert-parallel"),
    # With a front.
    (2, ""), (3, "-dp 2"), (4, "--slots 1"), (5, "-tp 2 -dp 2"), (9, "-tp 2 -pp 2 -dp 2"), (3, "-dp 2 --experts 3"),
    (4, "-dp 3 --experts 3 --enable-expert-parallel"), (5, "-tp 2 --experts 5 --enable-expert-parallel"),
    (5, "-pp 2 --experts 3 --enable-expert-parallel"), (5, "-cp 2 --experts 5 --enable-expert-parallel")])
def test_tokens_are_one_ranks(one_rank, size, flags):
    _, expected = one_rank[experts_of(flags)]
    for texts in ranks.run(size, generated, f" {flags}".rstrip()):
        assert texts == expected


@pytest.mark.parametrize("requests", [1, 3, 5])
def test_replicas_that_share_experts_may_have_any_number_of_requests(one_rank, requests):
    """With one slot a replica waits for the other's longer prompts, and with one request it makes empty passes only."""
    _, expected = one_rank[3]
    for slots in (1, 4):
        flags = f" --experts 3 --enable-expert-parallel --requests {requests} --slots {slots}"
        for texts in ranks.run(3, generated, flags):
            assert texts == expected[:requests]


def test_a_model_that_one_split_saved_is_loaded_by_another(tmp_path):
    file = str(tmp_path / "gpt.pt")
    ranks.run(4, trained, f"-tp 2 -pp 2 --experts 3 --enable-expert-parallel --save {file}")
    alone, = ranks.run(1, generated, file)
    assert ranks.run(3, generated, f"{file} -pp 3")[0] == alone
    assert ranks.run(2, generated, f"{file} -tp 2")[0] == alone


def block_of_page(comm, text):
    exec(text.replace("initialize(", "initialize(comm, "), {"comm": comm})  # the job has been joined


@pytest.mark.parametrize("page", ["README.md", "docs/parallel.md"])
def test_the_first_block_of_a_page(page):
    text = (PROGRAMS.parents[1] / page).read_text(encoding="utf-8")
    block = re.search(r"```python\n((?:import torch\n)?import tutti\.parallel as tp\n.*?)```", text, re.DOTALL)
    ranks.run(2, block_of_page, block[1])


@pytest.mark.parametrize("flag", ["--requests", "--slots"])
def test_generating_nothing_is_refused(flag, capsys):
    with pytest.raises(SystemExit):
        program("generate").parse(["", flag, "0"])
    assert f"{flag} is 0" in capsys.readouterr().err
