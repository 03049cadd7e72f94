"""Stop the worker processes of a pool. Only this module uses private attributes of a pool."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor


def stop_workers(pool: ProcessPoolExecutor) -> None:
    """Cancel waiting tasks, and end the workers at once.

    Pools have a method for this from Python 3.14 on. In earlier versions, the processes are in
    `_processes`. If a pool has neither, wait for the running tasks, which is slower but correct.
    """
    if hasattr(pool, "terminate_workers"):
        pool.terminate_workers()
        return
    processes = getattr(pool, "_processes", None)
    workers = list((processes or {}).values())
    pool.shutdown(wait=processes is None, cancel_futures=True)
    for worker in workers:
        worker.terminate()
