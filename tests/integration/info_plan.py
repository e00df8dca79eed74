"""What `rondo-info plan` prints, as text and as JSON, and what it refuses.

info_plan.py [--few] COMMAND ...

--few leaves out the checks that ask for a thousand plans: where each start of the program is slow.
"""

import json
import subprocess
import sys

FEW = sys.argv[1] == "--few"
COMMAND = sys.argv[1 + FEW:] + ["plan"]
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "reduce", "broadcast", "send_recv",
         "all_to_all", "all_to_all_v", "gather", "scatter", "barrier")
KiB = 1024


def run(*arguments, status=0):
    done = subprocess.run(COMMAND + list(map(str, arguments)), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == status, f"{arguments}: status {done.returncode}: {done.stderr}"
    return done


def plan(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def check_kinds():
    """Each kind, small and large, on several groups: the verifier agrees, and the text too."""
    for kind in KINDS:
        for ranks in (1, 2) if kind == "send_recv" else (1, 2, 3, 8, 100):
            for size in ("0",) if kind == "barrier" else ("8", "1M"):
                found = plan(kind, ranks, size)
                assert found["verified"] is True and "fault" not in found, found
                assert found["kind"] == kind and found["ranks"] == ranks
                text = run(kind, ranks, size).stdout
                assert found["why"]["text"] in text
                assert "the plans of all ranks are right" in text
                assert text.count("\n  op ") == len(found["ops"])
                for name, value in found["cost"].items():
                    if name not in ("build_us", "choose_us"):
                        rows = [line.split() for line in text.split("\n")]
                        assert [name, str(value)] in rows, text


def check_costs():
    """The costs that docs/algorithms.md has."""
    expected = [
        # arguments, algorithm, dependent_hops, sends, bytes
        (("all_reduce", 4, "1M"), "ring", 6, 6, 1536 * KiB),
        (("all_reduce", 3, 8192), "direct", 4, 2, 2 * 8192),
        (("all_reduce", 100, 8, "--rank", 99), "tree", 37, 1, 8),
        (("all_reduce", 2, 8), "doubling", 1, 1, 8),
        (("all_gather", 5, "1M"), "ring", 4, 4, 4096 * KiB),
        (("all_gather", 17, 8), "ring", 16, 16, 128),
        (("reduce_scatter", 16, 8), "direct", 15, 15, 120),
        (("reduce", 128, 8, "--rank", 1), "direct", 127, 1, 8),
        (("broadcast", 6, "1M", "--root", 2, "--rank", 1), "ring", 5, 0, 0),
        (("alltoall", 8, 10), "direct", 7, 7, 70),
        (("barrier", 9, 0), "dissemination", 4, 4, 0),
        (("send_recv", 2, 64), "direct", 1, 1, 64),
    ]
    for arguments, algorithm, hops, sends, count in expected:
        found = plan(*arguments, "--algo", algorithm)
        assert found["algorithm"] == algorithm, found
        cost = found["cost"]
        assert (cost["dependent_hops"], cost["sends"], cost["bytes"]) == (hops, sends, count), found
        assert cost["state_bytes"] > 0 and cost["build_us"] >= 0


def check_choice():
    """The chosen one is the fastest candidate, and what the model assumes of each is true."""
    for kind in KINDS:
        for ranks in (2,) if kind == "send_recv" else (2, 3, 7, 8, 33):
            for size in ("0",) if kind == "barrier" else ("8", "64K"):
                for cores in ((), ("--cores", 2)):
                    found = plan(kind, ranks, size, *cores)
                    candidates = found["candidates"]
                    times = [c["predicted_us"] for c in candidates]
                    assert times == sorted(times) and times[0] > 0, found
                    chosen = [c for c in candidates if c["is_chosen"]]
                    assert [c["algorithm"] for c in chosen] == [found["algorithm"]], found
                    allowed = [c for c in candidates if c["may_be_chosen"]]
                    fastest = (allowed or chosen)[0]
                    assert fastest["predicted_us"] == chosen[0]["predicted_us"], found
                    assert found["why"]["rule"] == ("least" if len(allowed) > 1 else "only"), found
            for candidate in candidates:
                forced = plan(kind, ranks, size, "--algo", candidate["algorithm"])
                assert forced["cost"]["dependent_hops"] == candidate["dependent_hops"], forced
    assert "if each rank has a core (--cores)" in plan("all_reduce", 64, 8)["why"]["text"]
    assert "if all ranks share 2 cores" in plan("all_reduce", 64, 8, "--cores", 2)["why"]["text"]
    text = run("all_reduce", 64, 8, "--link", "network").stdout
    assert "ranks are on several machines" in text and text.count(" chosen\n") == 1, text
    for ranks, hops in ((64, 14), (1024, 22)):
        assert plan("all_reduce", ranks, 8)["cost"]["dependent_hops"] <= hops


def check_hops():
    """dependent_hops of all algorithms of an all-reduce, as docs/algorithms.md has them."""
    for ranks in (*range(2, 65), 1000, 1024, 4096):
        rounds = ranks.bit_length() - 1
        folds = ranks != 1 << rounds
        expected = {"doubling": rounds + 2 * folds, "binomial": 2 * (rounds + folds),
                    "direct": 2 * (ranks - 1), "two-shot": 2 * (ranks - 1),
                    "one-shot": 2 * ranks - 3, "one-shot-packets": 2 * ranks - 3,
                    "two-shot-packets": 2 * (ranks - 1),
                    "double-tree": 2 * (rounds + (ranks - 1).bit_length())}
        if ranks <= 1024:
            expected["ring"] = 2 * (ranks - 1)
            expected["halving"] = 2 * (rounds + folds)
        for algorithm, hops in expected.items():
            if ranks > 64 and (algorithm == "direct" or "-shot" in algorithm):
                continue
            found = plan("all_reduce", ranks, 8, "--algo", algorithm)
            assert found["cost"]["dependent_hops"] == hops, found["cost"]
            assert found["cost"]["build_us"] < 1000, found["cost"]
            too_large = algorithm in ("ring", "halving") and ranks > 256
            assert found["verified"] is (None if too_large else True), found["verified"]
    text = run("all_reduce", 1024, "1M", "--algo", "ring").stdout
    assert "too many ranks and chunks to verify" in text, text


def check_algorithms():
    """Algorithms can be asked for, also where they are not the choice."""
    for kind, algorithm in (*(("all_reduce", name) for name in (
            "ring", "tree", "direct", "doubling", "binomial", "halving",
            "two-shot", "one-shot", "double-tree", "one-shot-packets",
            "two-shot-packets")), ("all_gather", "bruck"),
            ("all_gather", "direct-packets"), ("reduce_scatter", "direct-packets"),
            ("all_to_all", "bruck"), ("reduce_scatter", "halving"), ("broadcast", "double-tree"),
            ("reduce", "double-tree"), ("reduce", "binomial"), ("gather", "binomial"),
            ("scatter", "binomial")):
        for ranks in (1, 2, 3, 64, 100):
            found = plan(kind, ranks, 8, "--algo", algorithm)
            assert found["algorithm"] == algorithm and found["verified"] is True, found
            assert found["why"] == {"rule": "forced", "text": "--algo names it"}, found


def check_ops():
    """The ops of a ring, as the tables of docs/algorithms.md have them."""
    ops = plan("all_reduce", 4, "1M", "--rank=1", "--algo", "ring")["ops"]
    assert [op["repeat"] for op in ops] == [1, 2, 1, 2, 1]
    assert [op["chunks"] for op in ops] == [[0], [3, 2], [1], [0, 3], [2]]
    assert ops[0]["primitive"] == ["send"] and ops[0]["to"] == [2] and ops[0]["from"] == []
    assert ops[4]["primitive"] == ["recv", "copy"] and ops[4]["from"] == [0] and ops[4]["to"] == []
    assert plan("alltoall", 4, 8, "--algo", "direct")["ops"][0]["to"] == [1, 2, 3]
    trees = plan("all_reduce", 7, "1M", "--rank=4", "--algo", "double-tree")
    assert trees["first_pass"] == 3 and trees["cost"]["bytes"] == 2048 * KiB, trees
    text = run("all_reduce", 7, "1M", "--rank=4", "--algo", "double-tree").stdout
    assert "second pass        after the ops above for all loops\n  op 3 " in text, text
    bruck = plan("all_gather", 7, 10, "--algo", "bruck")
    assert [op["width"] for op in bruck["ops"]] == [1, 1, 2, 2, 3, 3], bruck["ops"]
    assert bruck["cost"]["bytes"] == 60, bruck["cost"]
    halving = plan("reduce_scatter", 5, 10, "--algo", "halving")
    assert halving["ops"][1]["primitive"] == ["copy", "out_scratch"], halving["ops"]
    assert halving["ops"][-1]["primitive"] == ["recv", "reduce", "copy", "final", "out_base",
                                               "in_scratch"], halving["ops"]
    cost = halving["cost"]
    assert (cost["dependent_hops"], cost["bytes"], cost["scratch_bytes"]) == (3, 40, 30), cost
    parts = plan("alltoall", 7, 10, "--algo", "bruck")
    assert [(op["width"], op["run"]) for op in parts["ops"]] == [
        (7, 7), (3, 1), (3, 1), (3, 2), (3, 2), (3, 3), (3, 3), (7, 7)], parts["ops"]
    assert parts["cost"]["bytes"] == 90 and parts["cost"]["scratch_bytes"] == 70, parts["cost"]
    text = run("alltoall", 7, 10, "--algo", "bruck").stdout
    assert "send in_scratch runs, chunk 2 and 2 more in runs of 2, to rank 2" in text, text
    text = run("all_gather", 7, 10, "--algo", "bruck").stdout
    assert "recv copy, chunk 2 and the next 1, from rank 2" in text, text


def check_machines():
    """Several machines: candidates over two levels, and what machines send to each other."""
    for machines, each in ((2, 1), (2, 2), (3, 2), (4, 4), (5, 8), (8, 8)):
        ranks, size = machines * each, 48 * 5 * 7 * 64
        for options in ((), ("--in-turn",), ("--link", "shared_memory", "--cores", 2)):
            place = ("--machines", machines, *options)
            found = plan("all_reduce", ranks, size, *place)
            names = [c["algorithm"] for c in found["candidates"]]
            two_levels = each > 1
            assert ("chain+ring" in names, "binomial+doubling" in names) == (two_levels,) * 2, names
            assert found["machines"] == machines and found["verified"] is True, found
            sent = {}
            for candidate in found["candidates"]:
                forced = plan("all_reduce", ranks, size, *place, "--algo", candidate["algorithm"])
                assert forced["verified"] is True, forced
                cost = forced["cost"]
                assert cost["dependent_hops"] == candidate["dependent_hops"], forced
                assert cost["machine_bytes"] == candidate["machine_bytes"], forced
                sent[candidate["algorithm"]] = candidate["machine_bytes"]
            assert sent["ring"] == 2 * (ranks - 1) * (size // ranks), sent
            if each > 1:
                assert sent["chain+ring"] == 2 * (machines - 1) * (size // machines), sent
                assert sent["binomial+ring"] == sent["chain+ring"] < sent["ring"], sent
            if each > 1 and machines & (machines - 1) == 0:
                assert sent["chain+doubling"] == size * (machines.bit_length() - 1), sent
    # Two leaders a machine, each with half of the elements.
    for algorithm in ("chain+ring", "chain+doubling"):
        place = (16, "1M", "--machines", 4, "--algo", algorithm)
        one = plan("all_reduce", *place)
        for rank in range(4):
            two = plan("all_reduce", *place, "--ports", 2, "--rank", rank)
            assert two["verified"] is True, two
            assert two["cost"]["machine_bytes"] == one["cost"]["machine_bytes"], two
            peers = {to for op in two["ops"] for to in op["to"]}
            assert any(to > 3 for to in peers) == (rank < 2), two["ops"]
    # More lanes follow each other like more chunks.
    place = (64, "1M", "--machines", 8, "--algo", "chain+doubling")
    one = plan("all_reduce", *place)["cost"]["dependent_hops"]
    for leaders in range(2, 9):
        found = plan("all_reduce", *place, "--ports", leaders)
        assert found["verified"] is True, found
        assert found["cost"]["dependent_hops"] <= one + 2 * leaders, found["cost"]
    found = plan("all_reduce", 64, 8, "--machines", 8)
    assert found["algorithm"] in ("chain+doubling", "binomial+doubling"), found
    assert found["cost"]["choose_us"] < 100, found
    text = run("all_reduce", 64, 8, "--machines", 8, "--cores", 3).stdout
    assert ("if all ranks of a machine share 3 cores; ranks are on 8 machines, and there threads "
            "of one process" in text), text
    assert "a machine sends 24 B " in text, text
    assert plan("all_reduce", 8, 8)["candidates"][0]["machine_bytes"] == 0
    # 7 ranks on 3 machines: 0-2, 3-4, 5-6 and 0 3 6, 1 4, 2 5.
    for options, peer in (((), 1), (("--in-turn",), 3)):
        ops = plan("all_reduce", 7, 8, "--machines", 3, "--algo", "chain+doubling", *options)["ops"]
        assert ops[0]["from"] == [peer], ops


def check_machines_of_other_kinds():
    """Over two levels each byte enters each other machine once, wherever the ranks are."""
    names = ("chain+ring", "binomial+ring", "chain+doubling", "binomial+doubling")
    for machines, each in ((2, 2), (3, 2), (4, 4), (8, 3)):
        ranks, size = machines * each, 6400
        for options in ((), ("--in-turn",)):
            place = (ranks, size, "--machines", machines, *options)
            for kind, algorithm in (*((kind, name) for kind in ("broadcast", "reduce")
                                      for name in names), ("all_gather", "chain+ring"),
                                    ("reduce_scatter", "chain+ring")):
                found = plan(kind, *place, "--algo", algorithm)
                assert found["algorithm"] == algorithm and found["verified"] is True, found
                cost = found["cost"]
                said = next(c for c in found["candidates"] if c["algorithm"] == algorithm)
                for figure in ("dependent_hops", "machine_bytes"):
                    assert cost[figure] == said[figure], (kind, algorithm, figure, found)
                times = (ranks - each if kind in ("all_gather", "reduce_scatter") else
                         (machines - 1).bit_length() if (kind, algorithm.split("+")[1]) ==
                         ("broadcast", "doubling") else 1)
                assert cost["machine_bytes"] == times * size, (kind, algorithm, cost)
            for kind in ("all_gather", "reduce_scatter"):
                ring = plan(kind, *place, "--algo", "ring")["cost"]["machine_bytes"]
                assert ring == (ranks - 1) * size, ring
    # Two leaders a machine, each with half of the elements.
    for kind in ("broadcast", "reduce"):
        for root in (0, 1, 3, 6):
            place = (16, "1M", "--machines", 4, "--algo", "chain+ring", "--root", root)
            one, two = plan(kind, *place), plan(kind, *place, "--ports", 2)
            assert two["verified"] is True, two
            assert two["cost"]["machine_bytes"] == one["cost"]["machine_bytes"], two
            assert two["cost"]["port_bytes"] * 2 == one["cost"]["port_bytes"], two
    # Each port of a machine carries as much, and all together no more.
    for kind in ("all_gather", "reduce_scatter"):
        for ports in (1, 2, 4):
            found = plan(kind, 32, "1M", "--machines", 4, "--ports", ports, "--in-turn")
            assert found["algorithm"] == "chain+ring" and found["verified"] is True, found
            assert found["cost"]["machine_bytes"] == 24 << 20, found
            assert found["cost"]["port_bytes"] * ports == 24 << 20, found


def check_quantised():
    """The ops say how messages are quantised, and the bytes are those of the messages."""
    for size, ranks in (("64K", 2), ("1M", 8)):
        plain = plan("all_reduce", ranks, size, "--algo", "ring")
        assert plain["quantisation"] == "none", plain
        for what in ("int8", "float8_e4m3"):
            found = plan("all_reduce", ranks, size, "--quantise", what)
            assert (found["algorithm"], found["quantisation"]) == ("ring", what), found
            assert found["why"]["rule"] == "only" and len(found["candidates"]) == 1, found
            assert found["verified"] is True, found
            assert all(what in op["primitive"] for op in found["ops"]), found
            assert found["cost"]["bytes"] * 1024 == plain["cost"]["bytes"] * 260, found
            text = run("all_reduce", ranks, size, "--quantise", what).stdout
            assert f"quantised to {what}" in text, text


def check_refusals():
    for wanted, arguments in [
        ("'sum' is no kind of collective: all_reduce, ", ("sum", 2, 8)),
        ("RANKS of all_reduce is a number from 1 to 4096, not '0'", ("all_reduce", 0, 8)),
        ("RANKS of all_reduce is a number from 1 to 4096, not '4097'", ("all_reduce", 4097, 8)),
        ("RANKS of all_gather by ring is a number from 1 to 1024, not '1025'",
         ("all_gather", 1025, 8, "--algo", "ring")),
        ("RANKS of send_recv is a number from 1 to 2, not '3'", ("send_recv", 3, 8)),
        ("RANKS of all_reduce is a number from 1 to 4096, not 'two'", ("all_reduce", "two", 8)),
        ("BYTES is a size such as 8, 64K or 1.5M, not 'many'", ("all_reduce", 2, "many")),
        ("BYTES of barrier is 0, not '8'", ("barrier", 2, 8)),
        ("--rank '2' is not from 0 to 1", ("all_reduce", 2, 8, "--rank", 2)),
        ("--root '5' is not from 0 to 4", ("reduce", 5, 8, "--root", 5)),
        ("all_reduce has no root", ("all_reduce", 2, 8, "--root", 0)),
        ("three arguments are needed: KIND RANKS BYTES", ("all_reduce", 2)),
        ("one argument too many: '9'", ("all_reduce", 2, 8, 9)),
        ("--machines '3' is more than RANKS", ("all_reduce", 2, 8, "--machines", 3)),
        ("--link says how ranks of one machine reach each other: not network with --machines",
         ("all_reduce", 4, 8, "--machines", 2, "--link", "network")),
        ("reduce has no algorithm 'doubling'", ("reduce", 4, 8, "--algo", "doubling")),
        ("all_gather has no algorithm 'binomial+ring'",
         ("all_gather", 4, 8, "--algo", "binomial+ring")),
        ("all_reduce has no algorithm 'best'", ("all_reduce", 4, 8, "--algo", "best")),
    ]:
        done = run(*arguments, status=2)
        assert done.stdout == "", arguments
        assert done.stderr.startswith(f"rondo-info plan: {wanted}"), (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr


check_costs()
check_algorithms()
check_ops()
check_quantised()
check_refusals()
if not FEW:
    check_kinds()
    check_choice()
    check_hops()
    check_machines()
    check_machines_of_other_kinds()
