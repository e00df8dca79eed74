"""Compiles the daemon kernel with CUDA 12: NVRTC makes PTX of it, and ptxas machine code.

PyPI has no nvcc of CUDA 12. The library NVRTC has the same front end for device code, without the
part for the host.

    python3 tests/gpu/compile_cuda12.py [--version 12.9] [--like PTX] FOLDER

Installs the wheels of NVRTC and ptxas in FOLDER with pip, unless they are there, and prints what
ptxas says for each architecture. Exit status 1: the kernel does not compile, ptxas spills
registers, or, with --like, memory accesses, fences and barriers of the PTX for compute_90 are
other in number or form than those of that file, which nvcc has made:
build/*/daemon/cuda/rondo_cuda_kernel.fatbin.ptx.
"""
import argparse
import collections
import ctypes
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the PTX is made for, and the machine code that ptxas makes of it.
TARGETS = {80: ["sm_80", "sm_86"], 90: ["sm_90"], 100: ["sm_100", "sm_103", "sm_120"]}
COUNTED = re.compile(r"^\s*(?:@!?%p\d+ )?((?:ld|st|atom|red|fence|membar|bar|barrier)\.[\w.:]+)")

# NVRTC has no headers of C.
INTEGERS = "".join(
    f"typedef {sign} {kind} {prefix}int{bits}_t;\n"
    for sign, prefix in (("signed", ""), ("unsigned", "u"))
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
)
HEADERS = {
    "stdint.h": "#pragma once\n" + INTEGERS + """typedef unsigned long uintptr_t;
#define UINT8_MAX 0xff
#define UINT16_MAX 0xffff
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xfffffffffffffffful
#define INT32_MAX 0x7fffffff
#define UINT64_C(x) x##ul
#define INT64_C(x) x##l
""",
    "stddef.h": """#pragma once
typedef unsigned long size_t;
#define NULL 0
#define offsetof(type, member) ((size_t)__INTADDR__(&(((type *)0)->member)))
""",
    "string.h": "#include <stddef.h>\n",
    "assert.h": "",
    "stdalign.h": "",
    "stdbool.h": "",
}


def install(folder, version):
    """Installs the wheels. Returns the folder with NVIDIA's files."""
    if not (folder / "nvidia" / "cuda_nvrtc").exists():
        wheels = [f"nvidia-cuda-{name}-cu12=={version}.*" for name in ("nvrtc", "nvcc")]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*command, str(folder), *wheels], check=True)
    return folder / "nvidia"


def strings(texts):
    """Returns an array of C strings."""
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


def read_text(nvrtc, program, what):
    """Returns the text that NVRTC has for a program: "PTX" or "ProgramLog"."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def compile_ptx(nvrtc, architecture):
    """Returns the kernel's PTX."""
    source = (ROOT / "daemon/cuda/kernel.cu").read_bytes()
    options = ["-std=c++17", f"--gpu-architecture=compute_{architecture}", "-fmad=false",
               "-default-device", "-diag-suppress=161", f"-I{ROOT}", f"-I{ROOT}/include"]
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", len(HEADERS),
                                      strings(HEADERS.values()), strings(HEADERS))
    status = status or nvrtc.nvrtcCompileProgram(program, len(options), strings(options))
    if status:
        sys.exit(f"compute_{architecture}: {read_text(nvrtc, program, 'ProgramLog')}")
    return read_text(nvrtc, program, "PTX")


def assemble(ptxas, ptx, target):
    """Prints what ptxas says of the machine code. Returns True if it spills nothing."""
    command = [str(ptxas), f"-arch={target}", "-v", "-o", str(ptx.with_suffix(f".{target}")),
               str(ptx)]
    said = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if "is not defined for option" in said.stderr:
        print(f"{target}: ptxas does not know it")
        return True
    used = re.search(r"Used \d+ registers", said.stderr)
    spills = re.findall(r"(\d+) bytes spill", said.stderr)
    if said.returncode or not used:
        sys.exit(f"{target}: {said.stderr}")
    print(f"{target}: {used.group()}, {'+'.join(spills)} bytes spilled")
    return not any(int(bytes_spilled) for bytes_spilled in spills)


def count_forms(text):
    """Returns how often each form of an access, a fence or a barrier is in PTX."""
    found = (COUNTED.match(line) for line in text.splitlines())
    return collections.Counter(match.group(1) for match in found if match)


def main():
    """Runs the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default="12.9")
    parser.add_argument("--like", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    nvidia = install(args.folder, args.version)
    nvrtc = ctypes.CDLL(str(nvidia / "cuda_nvrtc/lib/libnvrtc.so.12"))
    is_good = True
    for architecture, targets in TARGETS.items():
        ptx = args.folder / f"kernel.compute_{architecture}.ptx"
        ptx.write_text(compile_ptx(nvrtc, architecture))
        for target in targets:
            is_good &= assemble(nvidia / "cuda_nvcc/bin/ptxas", ptx, target)
    if args.like:
        ours = count_forms((args.folder / "kernel.compute_90.ptx").read_text())
        theirs = count_forms(args.like.read_text())
        print(f"{sum(ours.values())} accesses, fences and barriers in {len(ours)} forms, "
              f"{'as' if ours == theirs else 'unlike'} {args.like}")
        is_good &= ours == theirs
    sys.exit(0 if is_good else 1)


main()
