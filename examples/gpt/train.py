"""Trains a small GPT on the bytes of a text, split over ranks; every split gives one rank's losses.

    tutti run -n 4 python3 train.py --tensor-parallel-size 2 --pipeline-parallel-size 2
    torchrun --nproc-per-node 4 train.py --data-parallel-size 4 --save gpt.pt
"""

import argparse
import time

import torch

import model as gpt
import tutti.parallel as tp


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    gpt.add_flags(parser)
    parser.add_argument("--sequence-parallel", action="store_true",
                        help="with tensor parallelism: norms see parts of a sequence")
    parser.add_argument("--schedule", default="1F1B", help="of the pipeline: GPipe, 1F1B, Interleaved1F1B, ZB-H1 or ZB-V")
    parser.add_argument("--chunks", type=int, default=None, help="of the model, a pipeline stage: for Interleaved1F1B")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16, help="sequences of a step, of all replicas together")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--save", help="the file for the whole model")
    return parser.parse_args(words)


def train(arguments: argparse.Namespace, comm=None) -> list[float]:
    """Trains, and returns the losses of the steps."""
    text, history = gpt.text(), []
    with gpt.initialize(arguments, comm) as parallel:
        if parallel.comm.rank == 0:
            print(parallel.draw())
        stages = parallel.pipeline.size
        schedule = tp.pipeline_schedule(arguments.schedule, stages, arguments.microbatches, arguments.chunks)
        layers = [gpt.layers_of(arguments, number, stages * schedule.chunks)
                  for number in schedule.chunks_of(parallel.pipeline.rank)]
        model = torch.nn.ModuleList(gpt.Stage(arguments, *bounds, arguments.sequence_parallel) for bounds in layers)
        model.to(arguments.device)
        replicas = tp.DistributedDataParallel(model)

        def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            # Parts of a context may have different lengths: the mean over ranks of these is the mean over tokens.
            tokens = arguments.length * targets.shape[1] / parallel.context.size
            return tp.vocab_parallel_cross_entropy(logits, targets).sum() / tokens

        pipeline = tp.Pipeline(list(model), schedule=schedule, loss=loss_of, batch_dim=1)
        optimizer = torch.optim.Adam(model.parameters(), arguments.rate, eps=1e-5)

        # Each replica's samples, and of each the tokens of this part of the context.
        samples = arguments.batch // parallel.data.size
        mine = slice(parallel.data.rank * samples, (parallel.data.rank + 1) * samples)
        places = torch.tensor(tp.positions(arguments.length))
        chooser = torch.Generator().manual_seed(arguments.seed)
        for step in range(arguments.steps):
            began = time.perf_counter()
            starts = torch.randint(len(text) - arguments.length, (arguments.batch,), generator=chooser)[mine]
            at = starts + places[:, None]
            optimizer.zero_grad()
            with replicas.no_sync():  # the micro-batches' gradients are added up first
                loss = pipeline.step(text[at].to(arguments.device), text[at + 1].to(arguments.device))
            replicas.average_gradients()
            optimizer.step()
            losses = [one for one in parallel.comm.all_gather_object(None if loss is None else loss.item())
                      if one is not None]
            history.append(sum(losses) / len(losses))
            if parallel.comm.rank == 0:
                milliseconds = 1e3 * (time.perf_counter() - began)
                print(f"step {step:3}  loss {history[-1]:.6f}  # {milliseconds:.1f} ms")
        if arguments.save:
            save(arguments, parallel, model)
    return history


def save(arguments: argparse.Namespace, parallel: tp.Parallel, model: torch.nn.ModuleList) -> None:
    """Writes the whole model, however it is split."""
    state = {name: value for chunk in model for name, value in tp.whole_state_dict(chunk).items()}
    whole = {name: value for part in parallel.comm.all_gather_object(state) for name, value in part.items()}
    if parallel.comm.rank == 0:
        sizes = ("layers", "hidden", "heads", "kv_heads", "experts", "topk", "length")
        torch.save({"sizes": {name: getattr(arguments, name) for name in sizes}, "state": whole}, arguments.save)


if __name__ == "__main__":
    train(parse())
