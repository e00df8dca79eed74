"""How many elements the buffers of each kind of collective have, and holding them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, Tuple

from . import _native
from ._buffers import Held, hold
from ._enums import DType, Kind, RedOp
from ._errors import InvalidError

#: Elements for each member of the group.
Counts = Sequence[int]


def _words(name: str, numbers: Optional[Counts], ranks: int) -> "Optional[ctypes.Array[Any]]":
    if numbers is None:
        return None
    if len(numbers) != ranks or any(not 0 <= int(one) < 2**64 for one in numbers):
        raise InvalidError(f"all_to_all_v: {name} are {list(numbers)}, not one for each of {ranks} ranks")
    return (ctypes.c_uint64 * ranks)(*(int(one) for one in numbers))


@dataclass(frozen=True)
class Parts:
    """What a rank sends to each member and receives from each, in an all-to-all of uneven parts."""

    send_counts: Counts
    recv_counts: Counts
    send_displacements: Optional[Counts] = None
    recv_displacements: Optional[Counts] = None

    @staticmethod
    def extent(counts: Counts, displacements: Optional[Counts]) -> int:
        """Elements from the start of the buffer to the end of the last part."""
        if displacements is None:
            return sum(counts)
        return max((at + count for at, count in zip(displacements, counts) if count), default=0)

    def give(self, desc: _native.Desc, ranks: int) -> List[Any]:
        """Points ``desc`` to the numbers. What is returned must live until the library has them."""
        kept = []
        for name in ("send_counts", "recv_counts", "send_displacements", "recv_displacements"):
            words = _words(name, getattr(self, name), ranks)
            if words is not None:
                setattr(desc, name, ctypes.cast(words, ctypes.POINTER(ctypes.c_uint64)))
                kept.append(words)
        return kept


@dataclass(frozen=True)
class Shape:
    """What is done, and by whom: what the buffers of a run have to be follows from it."""

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
        """For the library, without id, group and priority."""
        if not 0 <= self.count < 2**64 or not 0 <= self.root < 2**32 or not 0 <= self.peer < 2**32:
            raise InvalidError(
                f"{self.kind.name.lower()}: count {self.count}, root {self.root} or peer {self.peer}"
                " is out of range"
            )
        return _native.Desc(
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

    def elements(self) -> Tuple[Optional[int], Optional[int]]:
        """Of the send and the receive buffer; ``None`` of one that this rank does not use."""
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
        """Holds the buffers that this rank uses; what is held, and both addresses, 0 of one that is not."""
        held: List[Held] = []
        addresses = [0, 0]
        # Parts that are apart may lie in an array that has room for more.
        may_be_longer = self.parts is not None
        try:
            for i, (array, count) in enumerate(zip((send, recv), self.elements())):
                side = f"{name}: {('send', 'recv')[i]}"
                if count is None:
                    continue
                if array is None:
                    raise InvalidError(f"{side} is None, and this rank needs it")
                one = hold(array, side, self.dtype, count, i == 1, may_be_longer)
                held.append(one)
                addresses[i] = one.address
        except BaseException:
            for one in held:
                one.release()
            raise
        return tuple(held), (addresses[0], addresses[1])
