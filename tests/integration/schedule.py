"""The command line of rondo-sim schedule: its results, its errors, and how it is interrupted."""

import csv
import io
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from html.parser import HTMLParser

COMMAND = sys.argv[1:] + ["schedule"]
DISORDER = "--ranks 8 --collectives 12 --orders random --bytes 64KiB"


def run(arguments, rc=0):
    """Runs the command and returns what it prints."""
    done = subprocess.run(COMMAND + arguments.split(), capture_output=True, text=True, check=False)
    assert done.returncode == rc, (arguments, done)
    return done.stdout if rc in (0, 10) else done.stderr


def check_results():
    """All forms say the same, and equal options give equal bits."""
    text = run(DISORDER + " --json")
    found = json.loads(text)
    assert run(DISORDER + " --json") == text
    assert found["outcome"] == "done" and found["runs_ended"] == 8 * 12, found
    assert found["makespan_us"] == max(
        c["latency_us"]["most"] for c in found["collectives"]), found
    assert found["traffic"]["outside"]["messages"] == 0, found["traffic"]
    path = found["critical_path"]
    assert abs(sum(path[k] for k in path if k.endswith("_us")) - found["makespan_us"]) < 0.01, path
    rows = list(csv.DictReader(io.StringIO(run(DISORDER + " --csv"))))
    assert [row["collective"] for row in rows] == [str(i) for i in range(12)] + ["all"], rows
    assert float(rows[-1]["most_us"]) == found["makespan_us"], rows[-1]
    assert f"{found['makespan_us']:.3f} us" in run(DISORDER)
    busbw = json.loads(run("--ranks 4 --bytes 1000000 --algo ring --latency 0 --bandwidth 1GB/s "
                           "--slot-bytes 1GiB --json"))["busbw_GBps"]
    assert abs(busbw - 1) < 0.001, busbw  # the bandwidth of the links
    machines = json.loads(run("--ranks 16 --machines 4 --bytes 1MiB --algo chain+ring --json"))
    assert machines["traffic"]["outside"]["bytes"] == 2 * 3 * 2**20, machines["traffic"]


def check_orders():
    """Orders that all ranks follow: free of deadlock without preemption, and said in the report."""
    makespans = []
    for order in ("static", "coordinator"):
        found = json.loads(run(DISORDER + f" --order {order} --json"))
        assert found["outcome"] == "done" and found["runs_ended"] == 8 * 12, found
        assert (found["job"]["order"], found["job"]["preempts"]) == (order, False), found["job"]
        assert (found["scheduler"]["rounds"] > 0) == (order == "coordinator"), found["scheduler"]
        makespans.append(found["makespan_us"])
        assert f"in one order: {order}\n" in run(DISORDER + f" --order {order}")
    assert makespans[1] > makespans[0], makespans
    found = json.loads(run(DISORDER + " --order static --budget adaptive --json"))
    assert found["job"]["preempts"], found["job"]
    # A rank waits for a run whose turn comes after one that it submits later.
    program = "--program 3d:4,2,2 --collectives 6 --orders random --order static"
    assert "outcome: deadlock" in run(program, 10)


def check_cores():
    """Ranks that share cores take longer, wait for them, and the report says so."""
    alone, shared = (json.loads(run(DISORDER + " --link thread --json" + cores))
                     for cores in ("", " --cores 3"))
    assert alone["job"]["cores"] == 8 and shared["job"]["cores"] == 3, (alone, shared)
    assert alone["scheduler"]["blocked_us"]["no_core"] == 0, alone["scheduler"]
    assert shared["makespan_us"] > alone["makespan_us"], (alone, shared)
    text = run(DISORDER + " --link thread --cores 3")
    assert "3 cores for the ranks of a machine\n" in text, text
    waited = shared["scheduler"]["blocked_us"]["no_core"]
    assert waited > 0 and f"{waited:.3f} us\n" in text, text


def check_syncs():
    """Synchronisations by the option, and by a statement of a program."""
    found = json.loads(run(DISORDER + " --sync 1 --json"))["scheduler"]
    assert found["syncs"] == 8 * 12 and found["sync_us"] > 0, found
    assert f"{found['sync_us']:.3f} us\n" in run(DISORDER + " --sync 1")
    assert "device syncs" not in run(DISORDER)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write('{"program": [{"op": "barrier", "times": 3},'
                   ' {"op": "barrier", "sync": true, "times": 2}]}')
        file.flush()
        found = json.loads(run(f"--ranks 4 --program {file.name} --json"))["scheduler"]
    assert found["syncs"] == 4 * 2, found


def check_trace():
    """Each run is an async slice of its rank, from submission to end."""
    events = json.loads(run(DISORDER + " --machines 2 --trace -"))["traceEvents"]
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names[0, None] == "machine 0" and names[1, 7] == "rank 7", names
    begins = {e["id"]: e for e in events if e["ph"] == "b"}
    ends = {e["id"]: e for e in events if e["ph"] == "e"}
    assert len(begins) == len(ends) == 8 * 12 and len(events) == 2 + 8 + 2 * 8 * 12, len(events)
    for number, end in ends.items():
        begin = begins[number]
        assert begin["ts"] <= end["ts"] and begin["name"] == end["name"], (begin, end)
        assert (begin["pid"], begin["tid"]) == (end["pid"], end["tid"]), (begin, end)
    last = json.loads(run(DISORDER + " --machines 2 --json"))["makespan_us"]
    assert max(end["ts"] for end in ends.values()) == last


SVG = "{http://www.w3.org/2000/svg}"


class Tags(HTMLParser):
    """Collects what a page refers to, and checks that tags are nested."""

    def __init__(self):
        super().__init__()
        self.open, self.refers = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.refers += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        assert tag not in ("script", "link", "iframe", "object"), tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


def page_read(arguments, rc=0):
    """Returns the root of the page, which is HTML and XML, and its text."""
    page = run(arguments + " --html -", rc)
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert not tags.open and not [r for r in tags.refers if not r.startswith("#")], tags.refers
    root = xml.etree.ElementTree.fromstring(page)
    return root, "".join(root.itertext()), page


def check_page():
    """A page that any reader of HTML or XML accepts, with what the JSON has."""
    arguments = DISORDER + " --machines 2 --interfaces 2 --late-rank 3=200us"
    found = json.loads(run(arguments + " --json"))
    root, text, page = page_read(arguments)
    assert page_read(arguments)[2] == page
    assert f"{found['makespan_us']:.3f}" in text and f"{found['scheduler']['preemptions']}" in text
    drawings = list(root.iter(SVG + "svg"))
    assert len(drawings) == 6, len(drawings)
    for part in ("latency", "transfer", "link", "block", "other"):
        assert f"{found['critical_path'][part + '_us']:.1f} us" in text, part
    for reason in ("no_data", "no_credit", "no_work", "no_core"):
        assert f"{found['scheduler']['blocked_us'][reason]:.1f} us" in text, reason
    for line in found["collectives"]:
        titles = [t.text for t in drawings[0].iter(SVG + "title")
                  if t.text.startswith(f"collective {line['name']}:")]
        assert len(titles) == 1 and f"median {line['latency_us']['median']:.3f}" in titles[0], line
    bars = [t.text for t in drawings[5].iter(SVG + "title")]
    assert len(bars) == 8 * 12 and "96 of their 96 runs" in text, len(bars)
    last = max(float(b.split(" to ")[1].split()[0]) for b in bars)
    assert last == found["makespan_us"], last
    for drawing in drawings:  # nothing is drawn beside the picture
        wide = float(drawing.get("viewBox").split()[2])
        for rect in drawing.iter(SVG + "rect"):
            assert 0 <= float(rect.get("x")) and (
                float(rect.get("x")) + float(rect.get("width")) <= wide), rect.attrib
    check_links(drawings[4], found["traffic"])
    _, text, _ = page_read(DISORDER + " --no-preemption", 10)
    assert "CIRCULAR WAIT" in text and "device is held" in text
    _, text, _ = page_read("--ranks 300 --op barrier")
    assert "The first 16 of 300 ranks" in text and "The first 12 of 300 links" in text
    page_read("--ranks 1 --bytes 8")
    check_page_names()
    refused = run(DISORDER + " --html /nowhere/page.html", 73)
    assert refused.count("\n") == 1 and "/nowhere/page.html" in refused, refused
    refused = run(DISORDER + " --html /dev/full", 73)
    assert refused.count("\n") == 1 and "/dev/full" in refused, refused
    for other in ("--goal x", "--regret"):
        refused = run(f"{other} --html x.html", 64)
        assert refused.count("\n") == 1 and "html" in refused, refused


def check_links(drawing, traffic):
    """All links together have sent all bytes."""
    sent = {"rank": 0, "machine": 0}
    texts = [t.text for t in drawing.iter(SVG + "text")]
    for name, value in zip(texts[::2], texts[1::2]):
        sent[name.split()[0]] += int(value.split(", ")[1].split()[0])
    assert sent["machine"] == traffic["outside"]["bytes"], (sent, traffic)
    assert sent["rank"] == traffic["inside"]["bytes"], (sent, traffic)


def check_page_names():
    """What HTML gives a meaning to is written as text: here the name of a program's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "<b>&'\"x.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"program": [{"name": "a", "op": "barrier", "size": 2}]}, file)
        root, text, _ = page_read(f"--ranks 4 --program {path}")
        assert path in text and "0: a" in text
        assert len(list(root.iter("{http://www.w3.org/1999/xhtml}b"))) == 1  # the outcome's


def check_programs():
    """Generators and files of programs; each statement has its own groups."""
    found = json.loads(run("--program ddp --bytes 100MiB --ranks 4 --compute 1ms --json"))
    assert [c["name"] for c in found["collectives"]] == [f"bucket {i}" for i in range(4)], found
    found = json.loads(run("--program 3d:4,2,2 --collectives 3 --compute 10us --json"))
    assert found["job"]["ranks"] == 16 and found["runs_ended"] == 16 * 3 * 5, found
    statement = {"op": "all_gather", "bytes": "1KiB", "size": 2, "stride": 4, "compute": "5us",
                 "copies": 3, "times": 2, "wait": True, "algo": "ring", "name": "gather"}
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/program.json"

        def run_file(content, rc=0):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
            return run(f"--ranks 8 --latency 1us --program {path} --json", rc)

        found = json.loads(run_file({"program": [statement, {"op": "barrier", "algo":
                                                             "dissemination"}]}))
        # Six times 5 us and a hop, then three rounds.
        assert found["makespan_us"] == 6 * 6 + 3, found
        assert [c["name"] for c in found["collectives"][:3]] == [f"gather {i}" for i in range(3)]
        for content, what in (
            ("{", "program.json:1: "),
            ({"program": []}, "at least one statement"),
            ({"program": [1]}, "statement 1 must be an object"),
            ({"program": [statement, {"bites": 1}]}, 'statement 2: there is no key "bites"'),
            ({"program": [{"bytes": -1}]}, 'the value of "bytes"'),
            ({"program": [{"algo": "best"}]}, 'no algorithm "best"'),
            ({"program": [{"name": 'a"b'}]}, 'the value of "name"'),
            ({"program": [{"a\nb": 1}]}, 'no key "a b"'),
            ({"program": [{"parts": -1}]}, 'the value of "parts"'),
            ({"program": [{"op": "all_to_all_v", "bytes": "3GiB"}]}, "2 GiB or less"),
            ({"program": [{"size": 3}]}, "no groups of 3 that are 1 apart"),
            ({"program": [{"size": 4, "stride": 4}]}, "no groups of 4 that are 4 apart"),
        ):
            refused = run_file(content, 64)
            assert what in refused and refused.count("\n") == 1, refused
    found = json.loads(run("--program fsdp:4 --collectives 3 --bytes 12KiB --json"))
    names = ["forward"] * 3 + ["backward"] * 2 + ["gradients", "backward"] + ["gradients"] * 2
    assert [c["name"].split()[0] for c in found["collectives"]] == names, found
    found = json.loads(run("--program moe:4,2 --collectives 3 --bytes 1KiB --json"))
    assert found["job"]["ranks"] == 8 and found["runs_ended"] == 8 * 3 * 5, found
    assert "must read 3d:T,D,P" in run("--program 3d:4,4", 64)
    assert "at least 2 layers" in run("--program fsdp:4", 64)
    assert "must read moe:E,D" in run("--program moe:4", 64)
    assert "for 8 ranks, not 9" in run("--program 3d:2,2,2 --ranks 9", 64)


def record_write(path, rank, runs, members="[0, 1]", dropped=0, kind="all_reduce"):
    """Writes the record of a rank that submitted these runs: (collective, run, us, state)."""
    with open(path, "w", encoding="utf-8") as file:
        print(json.dumps({"rondo": "flight-record", "version": 1, "rank": rank, "ranks": 2}),
              json.dumps({"dropped": dropped}),
              f'{{"group": 1, "name": "pair", "ranks": {members}}}', sep="\n", file=file)
        for collective, number, time_us, state in runs:
            print(json.dumps({"collective": collective, "group": 1, "run": number,
                              "kind": "barrier" if collective == 7 else kind, "count": 16,
                              "dtype": "float32", "op": "sum", "state": state,
                              "submitted_ns": 10**18 + 1000 * time_us}), file=file)


def check_replay():
    """The runs of flight records at their times, from where all records have them."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/rank_{i}.jsonl" for i in range(2)]
        replay = "".join(f" --replay {path}" for path in reversed(paths))

        def run_records(*records, options="--latency 1us --json", rc=0, **others):
            for rank, runs in enumerate(records):
                record_write(paths[rank], rank, runs, **others)
            return run(replay + " " + options, rc)

        done = [(7, 4, 30, "completed"), (9, 0, 40, "completed"), (7, 5, 45, "started")]
        late = [(9, 0, 35, "completed"), (7, 5, 90, "submitted")]
        found = json.loads(run_records(done, late, dropped=3))
        # Run 4 of collective 7 is no longer in the second record.
        assert found["replay"] == {"begins_ns": 10**18 + 35000, "left_out": 1}, found["replay"]
        assert found["outcome"] == "done" and found["runs_ended"] == 4, found
        assert [(c["name"], c["op"], c["bytes"], c["latency_us"]["most"])
                for c in found["collectives"]] == [
                    ("collective 9", "all_reduce", 64, 6.0), ("collective 7", "barrier", 64, 46.0)
                ], found["collectives"]
        assert found["makespan_us"] == 90 - 35 + 1, found["makespan_us"]
        text = run_records(done, late, options="")
        assert f"from {10**18 + 35000} ns on; calls left out, which not all" in text, text
        # Two orders, and a rank that has not come: as they were.
        a, b = [(7, 0, 1, "started"), (9, 0, 2, "submitted")], [(9, 0, 1, "started")]
        found = json.loads(run_records(a, b + [(7, 0, 2, "submitted")]))
        assert found["outcome"] == "done", found["outcome"]
        options = "--no-preemption --json"
        found = json.loads(run_records(a, b + [(7, 0, 2, "submitted")], options=options, rc=10))
        assert found["deadlock"]["verdict"] == "circular_wait", found["deadlock"]
        assert json.loads(run_records(a, b, rc=10))["deadlock"]["verdict"] == "rank_never_came"
        for refused, arguments in (
                ("its ranks are not all known", {"members": "[0, 0]"}),
                ("rank 1 calls collective 9, which it is not in", {"members": "[0]"}),
                ("exclude each other", {"options": "--program ddp"}),
                ("is no flight record", {"options": "--replay " + sys.argv[0]}),
                ("the kind all?reduce is not simulated", {"kind": "all\nreduce"})):
            options = arguments.pop("options", "")
            assert refused in run_records(a, b, options=options, rc=64, **arguments), refused
        record_write(paths[0], 0, a)
        assert "there is no record of rank 1" in run("--replay " + paths[0], 64)


def varint(number):
    """A number in the wire format of protocol buffers."""
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def field(number, value):
    """A field of a message: a number, text, or another message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Trace:
    """The Chakra execution trace of a rank."""

    def __init__(self):
        self.data = self.message(field(1, "0.0.4"))

    @staticmethod
    def message(content):
        """A message of a file, with its length in front."""
        return varint(len(content)) + content

    def node(self, number, kind, deps=(), micros=0, inputs="", name="x", control=(), **attributes):
        """Adds a node. Numbers are int64 attributes, except flags."""
        content = field(1, number) + field(2, name) + field(3, kind)
        content += b"".join(field(4, d) for d in control)
        content += field(5, b"".join(varint(d) for d in deps)) if deps else b""
        content += field(7, micros) + field(8, field(1, inputs))
        for key, value in attributes.items():
            kind = 27 if isinstance(value, bool) else 9 if isinstance(value, int) else 29
            value = int(value) if isinstance(value, bool) else value
            content += field(10, field(1, key) + field(kind, value))
        self.data += self.message(content)
        return self

    def comp(self, number, micros, deps=(), **more):
        """Adds a node that computes."""
        return self.node(number, 4, deps, micros, **more)

    def coll(self, number, size, deps=(), kind=0, **more):
        """Adds a collective."""
        return self.node(number, 7, deps, comm_type=kind, comm_size=size, **more)


def check_chakra():
    """Chakra execution traces: what they mean, and which are refused."""
    with tempfile.TemporaryDirectory() as folder:
        def run_traces(traces, options="--latency 1us --json", rc=0):
            for name in os.listdir(folder):
                os.remove(folder + "/" + name)
            for rank, trace in enumerate(traces):
                with open(f"{folder}/t.{rank}.et", "wb") as file:
                    file.write(trace if isinstance(trace, bytes) else trace.data)
            text = run(f"--chakra {folder}/t {options}", rc)
            return json.loads(text) if "--json" in options and rc in (0, 10) else text

        # A collective waits for what it depends on, whatever else is computed meanwhile, and a
        # device computes one node after the other: 5, then 7 beside the run, then 3 after both.
        def graph(device=False):
            t = Trace().comp(0, 5).coll(1, 8, [0]).comp(2, 7, [0], is_cpu_op=device)
            return t.comp(3, 3, [1], control=[2])
        found = run_traces([graph(), graph()])
        assert found["makespan_us"] == 5 + 7 + 3 and found["runs_ended"] == 2, found
        path = found["critical_path"]
        assert abs(sum(path[k] for k in path if k.endswith("_us")) - 15) < 0.01, path
        assert found["collectives"][0]["latency_us"]["most"] == 1, found["collectives"]
        assert run_traces([graph(), graph()], "--latency 9us --json")["makespan_us"] == 5 + 9 + 3
        # Ranks may be late or slow, and repeat all of it.
        late = run_traces([graph(), graph()], "--latency 1us --late-rank 1=20us --json")
        assert late["makespan_us"] == 35 and late["collectives"][0]["latency_us"]["most"] == 21
        slow = run_traces([graph(), graph()], "--latency 1us --slow-rank 0=2 --json")
        assert slow["makespan_us"] == 30, slow["makespan_us"]
        twice = run_traces([graph(), graph()], "--latency 1us --iterations 3 --json")
        assert twice["makespan_us"] == 45 and twice["runs_ended"] == 6, twice
        # The processor and the device compute beside each other; two nodes of the device do not.
        def pair(on_cpu):
            return Trace().comp(0, 5).comp(1, 6, is_cpu_op=on_cpu).coll(2, 8, [0, 1])
        assert run_traces([pair(True)] * 2)["makespan_us"] == 6 + 1
        assert run_traces([pair(False)] * 2)["makespan_us"] == 11 + 1
        # What a descriptor counts of comm_size, by kind, and how many ranks a group has.
        kinds = [(0, "all_reduce", 24), (1, "reduce", 24), (2, "all_gather", 24),
                 (3, "gather", 24), (4, "scatter", 8), (5, "broadcast", 24),
                 (6, "all_to_all", 8), (7, "reduce_scatter", 8), (9, "barrier", 0)]
        for kind, name, size in kinds:
            found = run_traces([Trace().coll(4, 24, kind=kind)] * 3)
            assert [(c["op"], c["bytes"]) for c in found["collectives"]] == [(name, size)], found
        # Groups: as PyTorch declares them, else those who call.
        said = ("['[{\"pg_name\": \"1\", \"ranks\": [2, 0]}, {\"pg_name\": \"0\","
                " \"ranks\": [], \"group_size\": 3}]']")
        both = Trace().node(1, 1, name="## process_group:init ##", inputs=said)
        both = both.coll(2, 8, pg_name="1").coll(3, 8, pg_name="0")
        one = Trace().coll(2, 8, pg_name="0")
        found = run_traces([both, one, both])
        assert [(c["name"], c["latency_us"]["count"]) for c in found["collectives"]] == [
            ("group 1", 2), ("group 0", 3)], found["collectives"]
        assert "in a group of 2\n" in run_traces([both, one, both], "")
        assert "t.0.et to " in run_traces([both, one, both], "")
        apart = [Trace().coll(1, 8, pg_name=name) for name in ("a", "b", "a", "b")]
        assert [c["latency_us"]["count"] for c in run_traces(apart)["collectives"]] == [2, 2]
        # Messages match by their ranks, tag and size.
        sends = Trace().node(0, 5, comm_size=8, comm_dst=1, comm_tag=3)
        sends = sends.node(1, 5, comm_size=8, comm_dst=1, comm_tag=4)
        gets = Trace().node(0, 6, comm_size=8, comm_src=0, comm_tag=4)
        gets = gets.node(1, 6, [0], comm_size=8, comm_src=0, comm_tag=3)
        found = run_traces([sends, gets])
        assert [c["op"] for c in found["collectives"]] == ["send_recv"] * 2, found
        assert found["runs_ended"] == 4 and found["collectives"][0]["name"] == "0 to 1", found
        # Two orders: no hang here, and one that is explained without preemption. A node that one
        # rank does not have.
        orders = [Trace().coll(1, 8).coll(2, 1 << 20, [], 7), Trace().coll(1, 1 << 20, [], 7)
                  .coll(2, 8)]
        assert run_traces(orders)["outcome"] == "done"
        found = run_traces(orders, "--latency 1us --no-preemption --json", 10)
        assert found["deadlock"]["verdict"] == "circular_wait", found["deadlock"]
        assert run_traces(orders, "--order static --latency 1us", 10)
        found = run_traces([graph(), Trace().comp(0, 1)], rc=10)
        assert found["deadlock"]["verdict"] == "rank_never_came", found["deadlock"]
        # Some say the version of the schema in an attribute.
        said = graph()
        said.data = said.data.replace(Trace().data, Trace.message(
            field(2, field(1, "schema") + field(29, "1.0.2-chakra.0.0.4"))))
        assert run_traces([said] * 2)["makespan_us"] == 15
        whole = graph().data
        for trace, what in (
                (b"", "t.0.et: the file is empty"),
                (whole[:-1], "t.0.et: byte"),
                (whole[:9], "t.0.et: byte 8: the trace is cut off"),
                (b"{\"schema\": 1}" * 20, "t.0.et: this is no Chakra execution trace"),
                (b"\x1f\x8b" + bytes(300), "t.0.et: this is no Chakra execution trace"),
                (whole[8:], "t.0.et: this is no Chakra execution trace"),
                (whole + b"\x02\x0b\x00", "this is no node of a Chakra trace"),
                (Trace().comp(1, 1, [2]), "node 1 depends on node 2, which is not there"),
                (Trace().comp(1, 1, [2]).comp(2, 1, [1]), "node 1: it depends on itself"),
                (Trace().comp(1, 1).comp(1, 1), "node 1: there are two of this id"),
                (Trace().node(1, 9), "node 1: there is no such type"),
                (Trace().node(1, 7, comm_size=8), "node 1: a collective without comm_type"),
                (Trace().node(1, 7, comm_type=0), "node 1: a communication without comm_size"),
                (Trace().coll(1, 8, kind=77), "node 1: this comm_type is not simulated"),
                (Trace().coll(1, 1 << 50), "node 1: comm_size is no whole number up to"),
                (Trace().node(1, 7, comm_type="x", comm_size=8), "node 1: comm_type is no whole"),
                (Trace().coll(1, 8, pg_name=7), "node 1: pg_name is no text"),
                (Trace().comp(1, 1 << 50), "node 1: it takes too long"),
                (Trace().node(1, 5, comm_size=8), "node 1: its peer is none of the other ranks"),
                (Trace().node(1, 5, comm_size=8, comm_src=1, comm_dst=0), "it is of another rank"),
                (Trace().node(1, 1, name="process_group:init", inputs="[{]"), "cannot be read"),
                (Trace().node(1, 1, name="process_group:init",
                              inputs='[{"pg_name": "1", "ranks": [9]}]'), "of which there is no"),
                (Trace().comp(1, 1), "no rank communicates")):
            refused = run_traces([trace], rc=64)
            assert what in refused and refused.count("\n") == 1, (what, refused)
        declared = ('[{"pg_name": "1", "ranks": [1]}]', '[{"pg_name": "1", "ranks": [0]}]')
        groups = [Trace().node(1, 1, name="process_group:init", inputs=x).coll(2, 8, pg_name="1")
                  for x in declared]
        assert "group 1 has other ranks elsewhere" in run_traces(groups, rc=64)
        assert "not in the group that it calls" in run_traces(
            [groups[0], Trace().coll(1, 8, pg_name="1")], rc=64)
        for options, what in (("--orders random", "--orders random exclude each other"),
                              ("--cores 1", "fewer --cores than ranks exclude each other"),
                              ("--program ddp", "--program exclude each other"),
                              ("--ranks 3", "for 2 ranks, not 3")):
            assert what in run_traces([graph(), graph()], options, 64), options
    assert "/nowhere/x.0.et: No such file" in run("--chakra /nowhere/x", 64)


def check_goal():
    """GOAL programs: what comes out, and what is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/program.goal"

        def run_file(content, options="", rc=0):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            return run(f"--goal {path} {options}", rc)

        ping = ("num_ranks 2\nrank 0 {\nsend 101b to 1 tag 4\n}\nrank 1 {\n"
                "a: recv 101b from 0 tag 4\nb: calc 30\nb requires a\n}\n")
        text = run_file(ping, "--json")
        assert run_file(ping, "--json") == text
        found = json.loads(text)
        assert found["end_us"] == [1.5, 2.5 + 2 * 1.5 + 0.6 + 0.03], found
        assert found["outcome"] == "done" and found["events"] == 4, found
        assert "6.130 us (rank 1)" in run_file(ping)
        costs = "--loggp 100,10,5,0.5,2,1000"
        found = json.loads(run_file(ping, costs + " --json"))
        assert found["end_us"] == [0.21, 0.1 + 0.02 + 0.2 + 0.03], found
        found = json.loads(run_file(ping, costs + " --message-gap --json"))
        assert found["end_us"][1] == 0.355, found
        stuck = run_file(ping.replace("send 101b to 1 tag 4", "calc 1"), rc=10)
        assert "outcome: deadlock" in stuck, stuck
        assert f"{path}:6: rank 1 waits for 0, tag 4" in stuck, stuck
        for options, rc, what in (("--ranks 4", 64, "ranks: there is no such option for --goal"),
                                  ("--csv", 64, "csv: there is no such option for --goal"),
                                  ("--loggp 1,2,3,4,5,6,7", 64, "loggp: ")):
            assert what in run_file(ping, options, rc), options
        refused = run_file(ping.replace("calc", "wait"), rc=65)
        assert refused == (f'rondo-sim schedule: {path}:7: send, recv or calc expected in place of '
                           '"wait"\n'), refused
    for option, rc in (("--goal", 65), ("--program", 64), ("--turns", 65)):
        found = run(f"{option} /nowhere/x", rc)
        assert "/nowhere/x: No such file" in found and ":-1" not in found
    assert "only for --goal" in run("--loggp 1,2,3,4,5", 64)
    assert "only for --goal" in run("--message-gap", 64)


def check_regret():
    """The table, its mean and greatest ratio, and what it does not take."""
    found = json.loads(run("--regret --ranks 8 --json"))
    cells = found["cells"]
    assert found["complete"] and len(cells) == 3 * 6 * 5, len(cells)
    ratios = [cell["chosen_us"] / cell["best_us"] for cell in cells]
    assert min(ratios) == 1 and abs(max(ratios) - found["most"]) < 1e-9, found["most"]
    assert abs(statistics.geometric_mean(ratios) - found["mean"]) < 1e-9, found["mean"]
    assert {(cell["ranks"], cell["machines"]) for cell in cells} == {(2, 1), (8, 1), (8, 2)}
    text = run("--regret --ranks 8")
    assert f"geometric mean {found['mean']:.3f}, most {found['most']:.3f}" in text, text
    assert text.count(" takes ") == sum(ratio > 1.1 for ratio in ratios), text
    for option in ("--op reduce", "--machines 2", "--late-rank 0=1ms", "--csv"):
        name = option.split()[0].strip("-")
        assert f"{name}: there is no such option for --regret" in run("--regret " + option, 64)
    assert "regret: there is no such option for --goal" in run("--goal x --regret", 64)


def check_deadlock():
    """A deadlock is explained with its cycle."""
    with tempfile.TemporaryDirectory() as folder:
        drawings = f" --svg {folder}/c.svg --dot {folder}/c.dot"
        text = run(DISORDER + " --no-preemption" + drawings, 10)
        assert "CIRCULAR WAIT" in text and "outcome: deadlock" in text, text
        with open(folder + "/c.svg", encoding="utf-8") as svg:
            assert "<svg" in svg.read()
        with open(folder + "/c.dot", encoding="utf-8") as dot:
            assert "digraph" in dot.read()
    # A rank that waits for its device cannot call what the other one waits in.
    syncs = "--ranks 2 --collectives 2 --orders random --no-preemption --sync 1 --seed 3"
    found = json.loads(run(syncs + " --json", 10))["deadlock"]
    words = " ".join(found["analyses"][0]["explanation"])
    assert found["verdict"] == "circular_wait" and "for its device" in words, found
    assert found["analyses"][0]["certainty"] == "recorded", found
    assert all(rank["synchronises"] for rank in found["analyses"][0]["rank_states"]), found
    assert "its program waits for its device" in " ".join(run(syncs, 10).split())
    found = json.loads(run(DISORDER + " --no-preemption --json", 10))
    assert found["deadlock"]["verdict"] == "circular_wait", found["deadlock"]
    assert run(DISORDER.replace("random", "one") + " --no-preemption")


def check_refusals():
    """Each mistake is one line that names the option."""
    for arguments, what in (
        ("--ranks 0", "ranks"),
        ("--ranks 131073", "ranks"),
        ("--ranks 3 --machines 2", "machines"),
        ("--op sum", "op"),
        ("--algo best", "algo"),
        ("--op barrier --algo ring", "barrier has no plan by the algorithm ring"),
        ("--op send_recv --ranks 3", "send_recv"),
        ("--ranks 65535 --algo two-shot", "4294770690 connectors"),
        ("--bytes 1.5", "bytes"),
        ("--latency 3", "latency"),
        ("--bandwidth 3", "bandwidth"),
        ("--loggp 1,2,3", "loggp"),
        ("--late-rank 8=1ms", "late-rank"),
        ("--slow-rank 1=x", "slow-rank"),
        ("--slots 3", "slots"),
        ("--preset h200", "preset: \"h200\" is not one of h100,frontier"),
        ("--preset h100 --ranks 12", "12 ranks do not fill machines of 8"),
        ("--cores 0", "cores"),
        ("--sync 1.5", "sync"),
        ("--cost-model /nowhere/x", "cost-model: /nowhere/x: No such file"),
        ("--root 8 --op reduce", "root"),
        ("--orders none", "orders"),
        ("--order one", "order: \"one\" is not one of free,static,coordinator"),
        ("--max-budget 1ns", "budgets"),
        ("--collectives 16385", "collectives"),
        ("job.json", "job.json"),
    ):
        found = run(arguments, 64)
        assert re.fullmatch(f"rondo-sim schedule: .*{re.escape(what)}.*\n", found), found
    assert "/nowhere/x" in run("--json=/nowhere/x", 73)


def interrupt(arguments, progress):
    """Sends Ctrl-C when the command shows progress with that word, and returns what it prints."""
    with subprocess.Popen(COMMAND + arguments.split(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        shown = b""
        while progress not in shown:
            shown += os.read(process.stderr.fileno(), 1000)
        process.send_signal(signal.SIGINT)
        text = process.communicate()[0]
    assert process.returncode == 130, process.returncode
    return json.loads(text)


def check_interrupt():
    """Ctrl-C gives what is known by then."""
    found = interrupt("--ranks 512 --collectives 200 --orders random --bytes 1MiB --progress "
                      "--json", b"events")
    assert found["outcome"] == "interrupted", found["outcome"]
    assert found["events"] > 0 and found["runs_ended"] < found["runs"] == 512 * 200, found
    found = interrupt("--regret --ranks 1024 --progress --json", b" of 210 collectives")
    assert not found["complete"] and 0 < len(found["cells"]) < 210, found


def check_scale():
    """100,000 ranks fit in 2 GiB."""
    found = json.loads(run("--ranks 100000 --op all_reduce --algo recursive --bytes 8 --json"))
    assert found["runs_ended"] == 100000 and found["critical_path"]["messages"] >= 17, found
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 << 20


check_results()
check_cores()
check_syncs()
check_orders()
check_trace()
check_page()
check_programs()
check_replay()
check_chakra()
check_goal()
check_regret()
check_deadlock()
check_refusals()
check_interrupt()
if "RONDO_TEST_REDUCED" not in os.environ:
    check_scale()
