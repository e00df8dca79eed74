#!/usr/bin/env python3
"""Checks the daemon kernel as nvcc compiled it: check_kernel.py LOG PTX ARCHITECTURES [timed]

LOG is what ptxas -v said of each architecture, PTX the kernel's intermediate code, ARCHITECTURES
those that must be there, as in 80,90; "timed": of the kernel for benchmarks, which keeps times.
Every rule is also applied to an input that breaks it, and must say so. Exit status: 0 all is well,
1 not.
"""
import re
import sys

IS_TIMED = sys.argv[4:] == ["timed"]
KERNEL = "rondo_cuda_daemon_timed" if IS_TIMED else "rondo_cuda_daemon"
ARCHITECTURES = [f"sm_{number}" for number in sys.argv[3].split(",")]
MOST_REGISTERS = 128  # 512 threads of them fit a multiprocessor
MOST_SHARED = 1024  # static; what a block's state and tasks take is dynamic
CONTEXT_VECTORS = 15  # of 16 bytes: daemon/core/context_core.h
SAVED_VECTORS = 8  # of those, the dynamic part


def kernels(log):
    """What ptxas says of the kernel, by architecture."""
    parts = re.split(r"Compiling entry function '(\w+)' for '(sm_\w+)'", log)
    return {arch: text for name, arch, text in zip(parts[1::3], parts[2::3], parts[3::3])
            if name == KERNEL}


def rule_every_architecture(log, _):
    return all(arch in kernels(log) for arch in ARCHITECTURES)


def rule_no_stack_and_no_spills(log, _):
    lines = [line for line in log.splitlines() if "bytes stack frame" in line]
    good = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
    return bool(lines) and all(line.strip() == good for line in lines)


def rule_registers(log, _):
    used = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    return bool(used) and max(used) <= MOST_REGISTERS


def rule_shared_memory(log, _):
    return all(int(n) <= MOST_SHARED for n in re.findall(r"(\d+) bytes smem", log))


def rule_vectors(_, ptx):
    loads = len(re.findall(r"\bld\.global\.v4\.u32\b", ptx))
    stores = len(re.findall(r"\bst\.global\.v4\.u32\b", ptx))
    return loads >= 100 and stores >= 100


def rule_loads_in_flight(_, ptx):
    """Somewhere eight vectors are loaded before the first is stored."""
    return re.search(r"(?:ld\.global\.v4\.u32(?:(?!st\.global\.v4)[\s\S])*?){8}", ptx) is not None


def accesses(ptx):
    """All loads and stores in turn, a letter each: those of 16 bytes as in `letters`, others '.'"""
    letters = {"ld.global.v4.u32": "G", "st.global.v4.u32": "g",
               "ld.shared.v4.u32": "S", "st.shared.v4.u32": "s"}
    words = re.findall(r"\b((?:ld|st)\.[a-z]\S*)", ptx)
    return "".join(letters.get(word, ".") for word in words)


def rule_context_load_in_flight(_, ptx):
    """All of a context is asked for before the first of it is put into shared memory."""
    return "G" * CONTEXT_VECTORS + "s" * CONTEXT_VECTORS in accesses(ptx)


def rule_context_save_is_its_dynamic_part(_, ptx):
    line = accesses(ptx)
    saves = re.findall(r"S+g+", line)
    return bool(saves) and all(s == "S" * SAVED_VECTORS + "g" * SAVED_VECTORS for s in saves)


def rule_order_at_system_scope(_, ptx):
    wanted = ("ld.acquire.sys.b32", "ld.acquire.sys.b64", "st.release.sys.b32",
              "st.release.sys.b64", "fence.sc.sys", "fence.acq_rel.sys")
    # Blocks of one device share an inbox, the count of ended parts, the claim and the mirror: scope
    # gpu.
    shared = r"(?:atom\.cas\.acq_rel|ld\.acquire|st\.release|fence\.acq_rel)\.gpu\b"
    narrow = re.search(r"\.(?:acquire|release|acq_rel)\.(?:cta|gpu)\b", re.sub(shared, "", ptx))
    return all(word in ptx for word in wanted) and not narrow


def rule_completion_is_one_store(_, ptx):
    return re.search(r"fence\.acq_rel\.sys;\s*st\.volatile\.global\.v2\.u64", ptx) is not None


def rule_packets_are_two_whole_halves(_, ptx):
    return all(f"{way}.volatile.global.v2.u64" in ptx for way in ("ld", "st"))


def rule_clock_and_back_off(_, ptx):
    return "%globaltimer" in ptx and "nanosleep.u32" in ptx


def rule_quiet(_, ptx):
    return not re.search(r"\b(?:vprintf|__assertfail|trap|brkpt|malloc)\b", ptx)


def rule_no_local_memory(_, ptx):
    return not re.search(r"\b(?:ld|st)\.local\b|^\s*\.local\b", ptx, re.M)


def rule_no_fused_multiply_add(_, ptx):
    return not re.search(r"\bfma\.rn\.f(?:32|64)\b", ptx)


def rule_barrier_counts_its_threads(_, ptx):
    barriers = re.findall(r"\bbar(?:rier)?\.[^;]*;", ptx)
    # With the movers, and with the mirror's warp.
    good = r"barrier\.cta\.sync (?:1, %r\d+|2, 64);"
    return bool(barriers) and all(re.match(good, b) for b in barriers)


def rule_ticks_are_for_benchmarks(_, ptx):
    """A look at the clock at both ends of each part, or none at all."""
    return len(re.findall(r"%clock64\b", ptx)) >= 14 if IS_TIMED else "%clock" not in ptx


# For each rule an input that breaks it, made of the real one: LOG and PTX.
BREAK = {
    rule_every_architecture: lambda log, ptx: (log.replace(ARCHITECTURES[-1], "sm_0"), ptx),
    rule_no_stack_and_no_spills: lambda log, ptx: (
        log.replace("0 bytes stack frame", "16 bytes stack frame", 1), ptx),
    rule_registers: lambda log, ptx: (re.sub(r"Used \d+ reg", "Used 168 reg", log, count=1), ptx),
    rule_shared_memory: lambda log, ptx: (log + "49152 bytes smem", ptx),
    rule_vectors: lambda log, ptx: (log, ptx.replace("st.global.v4.u32", "st.global.u8")),
    rule_loads_in_flight: lambda log, ptx: (
        log, re.sub(r"(ld\.global\.v4\.u32)", r"\1 st.global.v4.u32", ptx)),
    rule_context_load_in_flight: lambda log, ptx: (
        log, ptx.replace("ld.global.v4.u32", "ld.global.v4.u32 st.shared.v4.u32")),
    rule_context_save_is_its_dynamic_part: lambda log, ptx: (
        log, ptx.replace("ld.shared.v4.u32", "ld.shared.v4.u32 st.global.v4.u32", 1)),
    rule_order_at_system_scope: lambda log, ptx: (log, ptx.replace("release.sys", "release.cta")),
    rule_completion_is_one_store: lambda log, ptx: (
        log, ptx.replace("st.volatile.global.v2.u64", "st.volatile.global.u64")),
    rule_packets_are_two_whole_halves: lambda log, ptx: (
        log, ptx.replace("ld.volatile.global.v2.u64", "ld.volatile.global.v4.u32")),
    rule_clock_and_back_off: lambda log, ptx: (log, ptx.replace("nanosleep", "nothing")),
    rule_quiet: lambda log, ptx: (log, ptx + "\n\ttrap;\n"),
    rule_no_local_memory: lambda log, ptx: (log, ptx + "\n\tst.local.u32 [%rd1], %r1;\n"),
    rule_no_fused_multiply_add: lambda log, ptx: (log, ptx + "\n\tfma.rn.f32 %f1, %f2, %f3;\n"),
    rule_ticks_are_for_benchmarks: lambda log, ptx: (
        log, ptx.replace("%clock64", "0") if IS_TIMED else ptx + "\n\tmov.u64 %rd1, %clock64;\n"),
    rule_barrier_counts_its_threads: lambda log, ptx: (log, ptx + "\n\tbar.sync 0;\n"),
}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        log = file.read()
    with open(sys.argv[2], encoding="utf-8") as file:
        ptx = file.read()
    failed = 0
    for rule, spoil in BREAK.items():
        held, noticed = rule(log, ptx), not rule(*spoil(log, ptx))
        failed += not held or not noticed
        say = "holds" if held else "BROKEN"
        print(f"{rule.__name__[5:]}: {say}" + ("" if noticed else ", and its twin is NOT noticed"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
