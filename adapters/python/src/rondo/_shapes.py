"""The sizes of the buffers of each kind of collective."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, Tuple

from . import _native
from ._buffers import Held, hold
from ._enums import DType, Kind, RedOp
from ._errors import InvalidError

#: A number of elements for each member of the group.
Counts = Sequence[int]


@dataclass(frozen=True)
class Parts:
    """What a rank sends to each member and receives from each member in an all_to_all_v."""

    send_counts: Counts
    recv_counts: Counts
    send_displacements: Optional[Counts] = None
    recv_displacements: Optional[Counts] = None

    @staticmethod
    def extent(counts: Counts, displacements: Optional[Counts]) -> int:
        """The number of elements up to the end of the last part."""
        if displacements is None:
            return sum(counts)
        return max((at + count for at, count in zip(displacements, counts) if count), default=0)

    def fill(self, desc: _native.Desc, ranks: int) -> None:
        """Sets the counts of ``desc``, which keeps the arrays alive."""
        for name in ("send_counts", "recv_counts", "send_displacements", "recv_displacements"):
            numbers: Optional[Counts] = getattr(self, name)
            if numbers is None:
                continue
            if len(numbers) != ranks or any(not 0 <= int(one) < 2**64 for one in numbers):
                raise InvalidError(
                    f"all_to_all_v: {name} are {list(numbers)}, not one for each of {ranks} ranks"
                )
            setattr(desc, name, (ctypes.c_uint64 * ranks)(*(int(one) for one in numbers)))


@dataclass(frozen=True)
class Shape:
    """A collective as one rank sees it, which determines its buffers."""

    kind: Kind
    count: int
    dtype: DType
    ranks: int  # of the group
    position: int  # of this rank in the group
    op: RedOp = RedOp.SUM
    root: int = 0
    peer: int = 0
    scalar: float = 1.0
    parts: Optional[Parts] = field(default=None, compare=False)

    def desc(self) -> _native.Desc:
        """The descriptor, without id, group and priority."""
        if not 0 <= self.count < 2**64 or not 0 <= self.root < 2**32 or not 0 <= self.peer < 2**32:
            raise InvalidError(
                f"{self.kind.name.lower()}: count {self.count}, root {self.root}"
                f" or peer {self.peer} is out of range"
            )
        desc = _native.Desc(
            size=ctypes.sizeof(_native.Desc),
            version=_native.DESC_VERSION,
            kind=self.kind,
            count=self.count,
            dtype=self.dtype,
            redop=self.op,
            root=self.root,
            peer=self.peer,
            scalar=self.scalar,
        )
        if self.parts is not None:
            self.parts.fill(desc, self.ranks)
        return desc

    def elements(self) -> Tuple[Optional[int], Optional[int]]:
        """The sizes of the send and receive buffers; ``None``: not used by this rank."""
        count, wide = self.count, self.count * self.ranks
        if self.parts is not None:
            parts = self.parts
            return (
                parts.extent(parts.send_counts, parts.send_displacements),
                parts.extent(parts.recv_counts, parts.recv_displacements),
            )
        is_root = self.position == self.root
        send, recv = {
            Kind.ALL_REDUCE: (count, count),
            Kind.ALL_GATHER: (count, wide),
            Kind.REDUCE_SCATTER: (wide, count),
            Kind.REDUCE: (count, count if is_root else None),
            Kind.BROADCAST: (count if is_root else None, count),
            Kind.SEND_RECV: (
                count if is_root else None,
                count if self.position == self.peer else None,
            ),
            Kind.ALL_TO_ALL: (wide, wide),
            Kind.GATHER: (count, wide if is_root else None),
            Kind.SCATTER: (wide if is_root else None, count),
            Kind.BARRIER: (None, None),
        }[self.kind]
        return send, recv

    def hold(self, send: Any, recv: Any, name: str) -> Tuple[Tuple[Held, ...], Tuple[int, int]]:
        """Holds the buffers that this rank uses. Returns them, and both addresses; 0: not used."""
        held: List[Held] = []
        addresses = [0, 0]
        # The arrays of an all_to_all_v may be longer than their parts.
        may_be_longer = self.parts is not None
        try:
            for i, (array, count) in enumerate(zip((send, recv), self.elements())):
                side = f"{name}: {('send', 'recv')[i]}"
                if count is None:
                    continue
                if array is None:
                    raise InvalidError(f"{side} is None, but this rank uses it")
                one = hold(array, side, self.dtype, count, i == 1, may_be_longer)
                held.append(one)
                addresses[i] = one.address
        except BaseException:
            for one in held:
                one.release()
            raise
        return tuple(held), (addresses[0], addresses[1])
