"""Compute chunks by local processes or on a Ray cluster, and stop on a signal.

An engine yields (chunk, arrays, seconds) for each chunk as soon as it is finished, in any order.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any

from numpy.typing import NDArray

from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.study import modules
from zooming.lab.study.configuration import Chunk
from zooming.validation import check_int, n_cores


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


Finished = tuple[Chunk, dict[str, NDArray[Any]], float]
ENGINES = ("local", "ray")
MOST_ATTEMPTS = 5  # to compute a chunk whose worker dies each time


def compute(
    chunks: Sequence[Chunk], engine: str, workers: int | None, address: str | None = None
) -> Iterator[Finished]:
    """Compute all chunks and yield them as they finish.

    A worker or node that dies is replaced, and its chunks are computed again.
    """
    check_engine(engine, workers, address)
    for chunk in chunks:
        modules.find_id(chunk.problem.env_id)  # workers import only modules that are imported here
    n_workers = n_cores() if workers is None else workers
    return _local(chunks, n_workers) if engine == "local" else _ray(chunks, workers, address)


def check_engine(engine: str, workers: int | None, address: str | None) -> None:
    """Raise ConfigurationError if `compute` would refuse these arguments.

    A study calls it before it writes anything.
    """
    if engine not in ENGINES:
        raise ConfigurationError(f"engine={engine!r}: choose one of {', '.join(ENGINES)}")
    if workers is not None:
        check_int(workers, "workers", 1)
    if address is not None and engine != "ray":
        raise ConfigurationError("--address requires --engine ray")


def _run(chunk: Chunk) -> tuple[dict[str, NDArray[Any]], float]:
    """Compute a chunk in a worker. Return its arrays and the processor seconds of learning."""
    chunk.problem.import_module()
    kind = (chunk.problem.env_id, chunk.agent.kind)
    if kind not in _WARM:
        _WARM.add(kind)
        chunk.warm_up()
    runs, seconds = chunk.learn()
    return chunk.measure(runs), seconds


_WARM: set[tuple[str, str]] = set()  # environments and agents that this process has compiled


def prepare_worker() -> None:
    """Initialize a worker process. It ignores Ctrl-C, and exits when its parent ends."""
    # Ctrl-C reaches the whole process group; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)  # a parent that was killed cannot tell its workers to stop

    threading.Thread(target=follow, daemon=True).start()


def _local(chunks: Sequence[Chunk], n_workers: int) -> Iterator[Finished]:
    """Compute chunks in processes of one thread each.

    A pool that lost a worker is broken, so a new pool computes the remaining chunks.
    """
    left, lost = {chunk.name: chunk for chunk in chunks}, Counter[str]()
    while left:
        pool = ProcessPoolExecutor(min(n_workers, len(left)), get_context("spawn"), prepare_worker)
        try:
            yield from _drain(pool, left, n_workers, lost)
        finally:
            stop_workers(pool)


def _drain(
    pool: ProcessPoolExecutor, left: dict[str, Chunk], n_workers: int, lost: Counter[str]
) -> Iterator[Finished]:
    """Yield results until all are done or the pool breaks. Remove finished chunks from `left`."""
    waiting = list(reversed(left.values()))
    running: dict[Future[Any], Chunk] = {}
    try:
        while waiting or running:
            while waiting and len(running) < 2 * n_workers:
                chunk = waiting.pop()
                with _delay_interrupts():  # a worker that starts now must ignore Ctrl-C
                    running[pool.submit(_run, chunk)] = chunk
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                arrays, seconds = future.result()
                chunk = running.pop(future)
                del left[chunk.name]
                yield chunk, arrays, seconds
    except BrokenProcessPool:
        for chunk in running.values():
            _count_lost(lost, chunk)


def _count_lost(lost: Counter[str], chunk: Chunk) -> None:
    """Count a chunk that was lost with its worker. Raise ConfigurationError at MOST_ATTEMPTS."""
    lost[chunk.name] += 1
    if lost[chunk.name] >= MOST_ATTEMPTS:
        raise ConfigurationError(
            f"the worker died {MOST_ATTEMPTS} times at {chunk.problem.name}, "
            f"{chunk.agent.label}. Is it out of memory? Or "
            'is this a script that starts the study outside `if __name__ == "__main__":`, as '
            "workers import it too?"
        )


def _ray(chunks: Sequence[Chunk], workers: int | None, address: str | None) -> Iterator[Finished]:
    """Compute chunks on a Ray cluster. The modules of problems must be installed on its nodes.

    Without an address, here or in RAY_ADDRESS, start a local cluster. Ray alone would join a
    cluster that happens to run on this machine, and then refuses a number of CPUs.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigurationError("--engine ray needs ray: pip install 'zooming[ray]'") from error
    if not ray.is_initialized():
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        n_cpus = workers if address == "local" else None
        with _restore_handler(signal.SIGTERM):
            try:
                ray.init(
                    address=address,
                    num_cpus=n_cpus,
                    log_to_driver=False,
                    include_dashboard=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, ValueError) as error:
                raise ConfigurationError(f"no Ray cluster answers at {address}: {error}") from error
    run = ray.remote(num_cpus=1, max_retries=0)(_run)  # lost chunks are counted and repeated below
    waiting, lost = list(reversed(chunks)), Counter[str]()
    running: dict[Any, Chunk] = {}
    resources: dict[str, float] = ray.cluster_resources()
    most = workers or max(2, 2 * int(resources.get("CPU", 1)))
    while waiting or running:
        while waiting and len(running) < most:
            chunk = waiting.pop()
            running[run.remote(chunk)] = chunk
        done, _ = ray.wait(list(running), num_returns=1)
        for reference in done:
            chunk = running.pop(reference)
            try:
                arrays, seconds = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                # Raised by the run itself.
                raise error.cause if isinstance(error.cause, ZoomingError) else error from None
            except ray.exceptions.RayError:
                _count_lost(lost, chunk)
                waiting.append(chunk)  # its worker or node died before the result arrived
                continue
            yield chunk, arrays, seconds


class Stopped(Exception):
    """Raised if a study was interrupted. Finished runs are on disk. `code` is the exit code."""

    def __init__(self, done: int, total: int, code: int) -> None:
        so_far = f" after {done} of {total} runs" if total else ""
        super().__init__(f"stopped{so_far}; finished runs are kept")
        self.code = code


@contextmanager
def raise_on_sigterm() -> Iterator[list[int]]:
    """Yield an empty list. On SIGTERM, append the exit code to it and raise KeyboardInterrupt."""
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals
        return

    def handle(number: int, frame: Any) -> None:
        stop.append(128 + number)
        raise KeyboardInterrupt

    with _restore_handler(signal.SIGTERM):
        signal.signal(signal.SIGTERM, handle)
        yield stop


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set variables of the environment for processes that are started in the `with` block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def limit_threads() -> AbstractContextManager[None]:
    """Give each worker started in the `with` block one thread, unless its environment sets more."""
    return variables(**{name: "1" for name in _THREADS if name not in os.environ})


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextmanager
def _restore_handler(number: int) -> Iterator[None]:
    """Restore the handler of a signal at the end of the `with` block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(number)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the `with` block, and block it in workers started there.

    A new process inherits blocked signals. Ignoring the signal would lose it. Blocking it is not
    enough, because another thread may receive it while Python's handler runs in the main thread. So
    the handler records the signal, and it is raised again at the end.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "pthread_sigmask"
    ):
        yield
        return
    noted: list[int] = []
    with _restore_handler(signal.SIGINT):
        signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    if noted:
        signal.raise_signal(signal.SIGINT)
