"""Modes of compare about several collectives in flight, and about how their end is learned.

Each mode says which rows it has, which programs it starts for a number of ranks, what it asks them
for one repeat of a row, and how it prints the result:

  rows(arguments), team(arguments, ranks, cores), sample(row), explanation(arguments), head,
  line(result), closing(results)
"""

import collections

import programs
from programs import (KIB, MIB, Sample, Team, cell, ratio_of, ratio_text, ratios_of, reduced,
                      size_text, spread_text, wrong_text)

AT_MOST = 1.3  # times that own orders may take, of the time that one order takes

Cell = collections.namedtuple("Cell", "ranks in_flight bytes")
Size = collections.namedtuple("Size", "ranks bytes")

CELLS = [Cell(2, 8, 8), Cell(2, 64, KIB), Cell(2, 64, 64 * KIB), Cell(2, 64, MIB),
         Cell(2, 1000, KIB),
         Cell(4, 16, KIB), Cell(4, 64, 64 * KIB),
         Cell(8, 16, KIB), Cell(8, 64, KIB), Cell(8, 16, MIB),
         Cell(64, 8, KIB)]
QUICK_CELLS = [Cell(2, 8, 8), Cell(2, 64, KIB), Cell(4, 16, KIB)]
SIZES = [8, KIB, 64 * KIB, MIB]
QUICK_SIZES = [8, 64 * KIB]

# The values of rondo-perf's --blocking, by the ways that they stand for.
WAYS = {"wait": 1, "test": 2, "callback": 0, "descriptor": 3}
# What each way is compared with.
PEER_OF_WAY = {"wait": "mpi_wait", "test": "mpi_test", "callback": "mpi_test",
               "descriptor": "mpi_test"}


def chosen(rows, arguments):
    """The rows whose ranks and sizes the user has not excluded."""
    return [row for row in rows
            if (not arguments.ranks or row.ranks in arguments.ranks)
            and (not arguments.sizes or row.bytes in arguments.sizes)]


class DisorderSample(Sample):
    def requests(self, team, arguments):
        text = f"all_reduce {self.row.bytes} 0 {arguments.budget} {self.row.in_flight} "
        rondo = team.programs["rondo"]
        return [("common", rondo, text + "common"), ("own", rondo, text + "own"),
                ("one", rondo, text + "one"), ("mpi", team.programs["mpi"], text + "one")]

    def result(self, _arguments):
        repeats = self.counted()
        ratio = ratio_of(repeats, "own", "one")
        return {"ranks": self.row.ranks, "op": "all_reduce", "in_flight": self.row.in_flight,
                "bytes": self.row.bytes, "one_ns": reduced(repeats, "one"),
                "common_ns": reduced(repeats, "common"), "own_ns": reduced(repeats, "own"),
                "mpi_ns": reduced(repeats, "mpi"),
                "own_over_common": ratio_of(repeats, "own", "common"),
                "ratio": ratio, "ratios": ratios_of(repeats, "own", "one"),
                "mpi_over_one": ratio_of(repeats, "mpi", "one"),
                "mpi_over_own": ratio_of(repeats, "mpi", "own"),
                "target": f"own orders take at most {AT_MOST} times the time of one order",
                "target_ratio": AT_MOST, "met": ratio <= AT_MOST, "wrong": self.wrong,
                "set_aside": ratios_of(self.set_aside, "own", "one")}


class Disorder:
    """What it costs that each rank submits its collectives in an order of its own."""

    name = "disorder"
    sample = DisorderSample
    head = (f"{'ranks':>5s}  {'in flight':>9s}  {'size':>8s}  {'one us':>10s}  {'own us':>10s}"
            f"  {'MPI us':>10s}  {'own/one':>7s}  {'of repeats':>11s}  {'own/common':>10s}"
            f"  {'MPI/one':>7s}  {'MPI/own':>7s}"
            f"  at most {AT_MOST}")

    @staticmethod
    def rows(arguments):
        cells = arguments.cells or (QUICK_CELLS if arguments.quick else CELLS)
        return chosen(sorted(cells, key=lambda row: row.ranks), arguments)

    @staticmethod
    def team(arguments, ranks, cores):
        team = Team(arguments, ranks, cores)
        team.programs = {"rondo": programs.start_rondo(arguments, ranks, cores),
                         "mpi": programs.start_mpi(arguments, ranks, cores)}
        return team

    @staticmethod
    def explanation(_arguments):
        yield ("In each iteration every rank submits one run of each of so many different "
               "all-reduces of that size, and waits for all; times are for all of them.")
        yield ("one: Rondo, all ranks in one order; own: Rondo, each rank in a random order of its "
               "own, another one in each iteration; common: Rondo, all ranks in one random order, "
               "another one in each iteration; MPI: MPI_Iallreduce in one order, which is the only "
               "one it allows, and MPI_Waitall.")
        yield "Ratios are medians of the ratios of neighbours: above 1 the first takes longer."

    @staticmethod
    def line(r):
        return (f"{r['ranks']:5d}  {r['in_flight']:9d}  {size_text(r['bytes']):>8s}"
                f"  {cell(r['one_ns']):>10s}  {cell(r['own_ns']):>10s}  {cell(r['mpi_ns']):>10s}"
                f"  {ratio_text(r['ratio']):>7s}  {spread_text(r['ratios']):>11s}"
                f"  {ratio_text(r['own_over_common']):>10s}"
                f"  {ratio_text(r['mpi_over_one']):>7s}  {ratio_text(r['mpi_over_own']):>7s}"
                f"  {'met' if r['met'] else 'MISSED'}{wrong_text(r)}")

    @staticmethod
    def closing(results):
        missed = [r for r in results if not r["met"]]
        yield ""
        yield (f"{len(results) - len(missed)} of {len(results)} rows: own orders take at most "
               f"{AT_MOST} times the time of one order.")
        for r in missed:
            yield (f"  missed: {r['ranks']} ranks, {r['in_flight']} x {size_text(r['bytes'])}: "
                   f"{r['ratio']:.2f}")


class AsyncTeam(Team):
    """A program for each way: one that asked for the event descriptor pays for it in all ways."""

    def __init__(self, arguments, ranks, cores):
        super().__init__(arguments, ranks, cores)
        self.programs = {way: programs.start_rondo(arguments, ranks, cores, ["-z", str(value)])
                         for way, value in WAYS.items()}
        self.programs["mpi"] = programs.start_mpi(arguments, ranks, cores)


class AsyncSample(Sample):
    def requests(self, team, arguments):
        text = f"all_reduce {self.row.bytes} 0 {arguments.budget}"
        rondo = {way: (way, team.programs[way], text) for way in WAYS}
        mpi = team.programs["mpi"]
        return [rondo["wait"], ("mpi_wait", mpi, text + " 1 one 1"),
                rondo["callback"], ("mpi_test", mpi, text + " 1 one 2"), rondo["test"],
                rondo["descriptor"]]

    def result(self, _arguments):
        repeats = self.counted()
        result = {"ranks": self.row.ranks, "op": "all_reduce", "bytes": self.row.bytes,
                  "wrong": self.wrong, "set_aside": ratios_of(self.set_aside, "mpi_wait", "wait")}
        for name in ["mpi_wait", "mpi_test"]:
            result[name + "_ns"] = reduced(repeats, name)
        for way in WAYS:
            result[way + "_ns"] = reduced(repeats, way)
            result[way + "_ratio"] = ratio_of(repeats, PEER_OF_WAY[way], way)
            result[way + "_ratios"] = ratios_of(repeats, PEER_OF_WAY[way], way)
        return result


class Async:
    """What the ways cost by which a rank learns that a run has ended."""

    name = "async"
    sample = AsyncSample
    team = AsyncTeam
    head = (f"{'ranks':>5s}  {'size':>8s}  {'wait us':>10s}  {'MPI_Wait':>10s}  {'ratio':>6s}"
            f"  {'test us':>10s}  {'MPI_Test':>10s}  {'ratio':>6s}"
            f"  {'callback us':>11s}  {'ratio':>6s}  {'descriptor':>10s}  {'ratio':>6s}")

    @staticmethod
    def rows(arguments):
        sizes = arguments.sizes or (QUICK_SIZES if arguments.quick else SIZES)
        return [Size(ranks, size) for ranks in arguments.ranks or [2] for size in sizes]

    @staticmethod
    def explanation(_arguments):
        yield ("One all-reduce in each iteration. Rondo's end is learned by rondo_wait, by a loop "
               "over rondo_test, by a callback, or by the descriptor of rondo_event_fd with poll, "
               "read and rondo_test.")
        yield ("MPI's is an MPI_Iallreduce with MPI_Wait, or with a loop over MPI_Test. ratio = "
               "MPI's time / Rondo's, so above 1 Rondo is faster: of rondo_wait beside MPI_Wait, "
               "of the other three beside MPI_Test.")

    @staticmethod
    def line(r):
        text = f"{r['ranks']:5d}  {size_text(r['bytes']):>8s}"
        for way in "wait", "test":
            text += f"  {cell(r[way + '_ns']):>10s}  {cell(r[f'mpi_{way}_ns']):>10s}"
            text += f"  {ratio_text(r[way + '_ratio']):>6s}"
        text += f"  {cell(r['callback_ns']):>11s}  {ratio_text(r['callback_ratio']):>6s}"
        text += f"  {cell(r['descriptor_ns']):>10s}  {ratio_text(r['descriptor_ratio']):>6s}"
        return text + wrong_text(r)

    @staticmethod
    def closing(results):
        yield ""
        for way in WAYS:
            ratios = [r[way + "_ratio"] for r in results if r[way + "_ratio"]]
            if ratios:
                faster = sum(ratio >= 1 for ratio in ratios)
                yield f"{way}: not slower than MPI in {faster} of {len(ratios)} rows."
