from datetime import timedelta
from typing import Callable, List

from torch._C._distributed_c10d import Backend, Store

def make(
    store: Store,
    rank: int,
    size: int,
    timeout: timedelta,
    name: str,
    members: List[int],
    is_separate: bool = False,
) -> Backend: ...
def name_operations(name: str) -> str: ...
def abort_all() -> None: ...
def set_handle_source(source: Callable[[int, int], int]) -> None: ...
