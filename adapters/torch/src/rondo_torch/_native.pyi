from datetime import timedelta
from typing import List

import torch.distributed as dist

def make(
    store: dist.Store, rank: int, size: int, timeout: timedelta, name: str, members: List[int]
) -> dist.Backend: ...
def name_operations(name: str) -> str: ...
def abort_all() -> None: ...
