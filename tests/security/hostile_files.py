"""Checks that the `tutti` tool accepts or refuses every file within 2 s of processor time and 256 MB of memory. The
files are the test data and files generated here to be costly.

    tests/security/hostile_files.py SOURCE_DIR TUTTI              checks all files; exit status 0: all within budget
    tests/security/hostile_files.py SOURCE_DIR TUTTI --write DIR  only writes the generated files, e.g. as fuzzing seeds
"""

import argparse
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

CPU_S = 2
DATA_BYTES = 256 << 20
HANG_S = 120  # wall-clock time; allows for a busy machine


def program(gpus, coll="allreduce", chunks=1, inplace=0):
    """An <algo>. `gpus` has, for each GPU, its scratch chunks and its thread blocks as XML."""
    text = f'<algo name="made" proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{coll}" inplace="{inplace}">'
    for number, (scratch, blocks) in enumerate(gpus):
        text += f'<gpu id="{number}" s_chunks="{scratch}">' + "".join(blocks) + "</gpu>"
    return text + "</algo>"


def block(number, steps, send=-1, recv=-1, chan=0):
    return f'<tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">' + "".join(steps) + "</tb>"


def step(number, kind, count=1, awaited=(-1, -1), told=0, src=("i", 0), dst=("o", 0)):
    return (f'<step s="{number}" type="{kind}" srcbuf="{src[0]}" srcoff="{src[1]}" dstbuf="{dst[0]}" dstoff="{dst[1]}" '
            f'cnt="{count}" depid="{awaited[0]}" deps="{awaited[1]}" hasdep="{told}"/>')


def programs():
    yield "empty", program([(0, [])] * 256, chunks=16384)
    yield "scratch", program([(16384, [])] * 256, chunks=1)
    copies = [step(s, "cpy", 16383) for s in range(2)]
    yield "copies", program([(0, [block(b, copies) for b in range(8)])] * 4, chunks=16383)
    yield "many_copies", program([(0, [block(b, [step(s, "cpy", 8) for s in range(40)]) for b in range(16)])] * 25, chunks=8)
    # Neighbours keep passing on one chunk, against the order in which the verifier visits them.
    n, turns = 64, 60
    passing = [(0, [block(b, [step(s, "rcs" if (r or s) else "s") for s in range(turns)], (r - 1) % n, (r + 1) % n, b)
                    for b in range(16)]) for r in range(n)]
    yield "backwards", program(passing, coll="broadcast")
    # Chains of waits.
    lanes = 200
    waits = [block(b, [step(s, "nop", 0, ((b + 1) % lanes, s - 1) if s else (-1, -1), 1) for s in range(120)])
             for b in range(lanes)]
    yield "waits", program([(0, waits)])
    dense = [block(b, [step(s, "cpy", 1, (b - 1, s) if b else (-1, -1), 1) for s in range(8)]) for b in range(2000)]
    yield "dense_waits", program([(0, dense)])
    far = [(0, [block(b, [step(s, "s") for s in range(3)], (r + b + 1) % 64, -1, b % 32) for b in range(60)])
           for r in range(64)]
    yield "far", program(far, coll="alltoall", chunks=64)
    yield "channels", program([(0, [block(0, [step(0, "s")], (r + 1) % 256, -1, 31)]) for r in range(256)])
    # Every step adds the output to itself, so it doubles the sum.
    yield "doubling", program([(0, [block(0, [step(s, "re", 1, src=("o", 0)) for s in range(200)])])])
    yield "adding", program([(1, [block(0, [step(s, "re", 1, src=("s", 0), dst=("o", 0)) if s % 2
                                            else step(s, "re", 1, src=("o", 0), dst=("s", 0)) for s in range(200)])])])


def few_of_many_slots():
    """Many connections, each of which fills few of its slots."""
    n, scratch, copies, sends = 256, 512, 8, 3
    def steps(lane):
        at = [("s", (lane * copies + c) % scratch) for c in range(copies)]
        kinds = [("cpy", to) for to in at] + [("s", ("o", 0))] * sends + [("r", to) for to in at[:sends]]
        return [step(s, kind, dst=to) for s, (kind, to) in enumerate(kinds)]
    return program([(scratch, [block(k, steps(k), (g + k + 1) % n, (g - k - 1) % n) for k in range(16)]) for g in range(n)],
                   coll="allgather", chunks=n)


def topology(gpus, links, nics=0, width=lambda r: r.randint(1, 1024), seed=1):
    r = random.Random(seed)
    text = '<system version="1"><cpu numaid="0">'
    for g in range(gpus):
        text += f'<pci busid="{g // 256:04x}:{g % 256:02x}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="{g}" sm="80">'
        for _ in range(links):
            to = r.randrange(gpus)
            text += f'<nvlink target="{to // 256:04x}:{to % 256:02x}:00.0" count="{width(r)}" tclass="0x030200"/>'
        text += "</gpu></pci>"
    for k in range(nics):
        text += (f'<pci busid="{0x1000 + k // 256:04x}:{k % 256:02x}:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">'
                 f'<nic><net name="n{k}" dev="{k}" speed="{r.randint(1000, 800000)}"/></nic></pci>')
    return text + "</cpu></system>"


def topologies():
    yield "random", topology(200, 3)
    yield "random_small", topology(24, 23)
    yield "random_nics", topology(64, 8, 64)
    yield "random_large", topology(1024, 16)
    yield "flat_large", topology(1024, 0, 8)
    yield "flat", topology(256, 0)
    yield "flat_nics", topology(256, 0, 8)
    yield "equal", topology(200, 20, 4, lambda r: 1)
    yield "equal_large", topology(1024, 8, 0, lambda r: 1)
    yield "ports", topology(2, 1, 4000)
    yield "one_hundred_thousand", topology(8, 12000)


def dumps():
    yield "deep", "[" * 2_000_000 + "]" * 2_000_000
    yield "deep_object", '{"a":' * 1_000_000 + "1" + "}" * 1_000_000
    yield "many", "[" + ",".join(["[]"] * 2_700_000) + "]"
    yield "text", '{"tutti_dump": 1, "communicator": "' + "x" * 8_000_000 + '"}'
    yield "numbers", "[" + ",".join(["1e9"] * 2_000_000) + "]"
    yield "ill_typed", '{"tutti_dump": {"a": []}, "ranks": 7}'
    yield "terminal", ('{"tutti_dump": 1, "communicator": "\\u001b[2J", "name": "\\u009b2J", "rank": 0, "time_us": 1, '
                       '"ranks": [{"host": "\\u001b]0;x\\u0007", "pid": 1}], "operations": []}')


def made():
    """Yields (name, text, arguments before the file's name)."""
    for name, text in programs():
        yield f"program_{name}.xml", text, ["verify"]
    yield "program_slots.xml", few_of_many_slots(), ["verify", "--slots", "1024"]
    for name, text in topologies():
        yield f"topology_{name}.xml", text, ["topo", "--nodes", "2", "--rings", "--topo"]
    for name, text in dumps():
        yield f"dump_{name}.json", text, ["diagnose"]


def corpus(source):
    for path in sorted((source / "algorithms/msccl/testdata").glob("*.xml")):
        if "<algo" in path.read_text():
            yield path, ["verify"]
    for path in sorted((source / "topology/testdata").glob("*.xml")):
        yield path, ["topo", "--rings", "--topo"]


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(tutti, arguments, path, must_be_accepted):
    began = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run([tutti, *arguments, str(path)], preexec_fn=limit, capture_output=True, timeout=HANG_S)
        status, out, refusal = done.returncode, done.stdout + done.stderr, done.stderr
    except subprocess.TimeoutExpired:
        status, out, refusal = "no end", b"", b""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wrong = []
    if status not in (0, 1):
        wrong.append(f"ended by {status}")
    elif must_be_accepted and status != 0:
        wrong.append("was refused")
    if b"\x1b" in out or b"\xc2\x9b" in out or b"\x07" in out:
        wrong.append("printed what a terminal obeys")
    if status == 1 and (len(refusal) > 5000 or not refusal.startswith(b"tutti: ") or b"bad_alloc" in refusal):
        wrong.append("was not refused by a sentence")
    said = out.decode(errors="replace").strip().splitlines()[-1:] if status != 0 else ["accepted"]
    print(f"{'FAILED' if wrong else 'ok':6} {cpu:6.2f} s of {time.monotonic() - began:6.2f}  {pathlib.Path(path).name:36} "
          f"{'; '.join(wrong)} {said[0][:140] if said else ''}", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("tutti")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for name, text, _ in made():
            (options.write / name).write_text(text)
        return 0
    os.chdir(options.source)
    good = all([run(options.tutti, arguments, path, "wrong_" not in path.name) for path, arguments in corpus(options.source)])
    with tempfile.TemporaryDirectory() as folder:
        for name, text, arguments in made():
            path = pathlib.Path(folder) / name
            path.write_text(text)
            good = run(options.tutti, arguments, path, False) and good
            path.unlink()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
