"""Networks of networks.py in PyTorch, trained as its users do. Needs `make peers`."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fully_connected import RATES
from networks import NETWORKS, batches


def _dense(*units: int) -> Any:
    from torch import nn

    layers: list[Any] = []
    for inputs, outputs in zip(units, units[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _lenet() -> Any:
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *_dense(64 * 7 * 7, 512, 10),
    )


def _convnet(channels: Sequence[Any]) -> Any:
    from torch import nn

    layers: list[Any] = []
    inputs = 3
    for units in channels:
        if units == "pool":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, units, 3, padding=1, bias=False), nn.ReLU()]
            inputs = units
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def _resnet20() -> Any:
    from torch import nn

    def conv_bn(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
        conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs, track_running_stats=False))

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            stride = 1 if inputs == outputs else 2
            first, second = conv_bn(inputs, outputs, 3, stride), conv_bn(outputs, outputs, 3)
            self.main = nn.Sequential(first, nn.ReLU(), second)
            self.shortcut = nn.Identity() if stride == 1 else conv_bn(inputs, outputs, 1, 2)

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.shortcut(x) + self.main(x))

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(*pair) for pair in zip(widths, widths[1:])]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(conv_bn(3, 16, 3), nn.ReLU(), *blocks, *head)


def _lstm() -> Any:
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(28, 64, batch_first=True), nn.Linear(64, 10)
            # nn.LSTM adds two biases; the other networks have one.
            self.lstm.bias_hh_l0.requires_grad_(False).zero_()

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x.reshape(-1, 28, 28))[0][:, -1])

    return Network()


def _transformer() -> Any:
    from torch import nn

    class Network(nn.Module):
        def __init__(self, width: int = 128, heads: int = 4) -> None:
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.mixed = (nn.Linear(width, width) for _ in range(4))
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            rows, tokens, width = x.shape

            def split(value: Any) -> Any:
                return value.view(rows, tokens, self.heads, -1).transpose(1, 2)

            mixed = nn.functional.scaled_dot_product_attention(
                split(self.q(x)), split(self.k(x)), split(self.v(x))
            )
            x = x + self.mixed(mixed.transpose(1, 2).reshape(rows, tokens, width))
            x = x + self.narrow(nn.functional.relu(self.wide(x)))
            return self.head(x.mean(1))

    return Network()


def _embedding(words: int, width: int) -> Any:
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(words, width), nn.Linear(width, 10)

        def forward(self, ids: Any) -> Any:
            return self.head(self.table(ids).mean(1))

    return Network()


MODELS: dict[str, Callable[[], Any]] = {
    "logistic 32": lambda: _dense(784, 10),
    "MLP 3×512, Adam, 32": lambda: _dense(784, 512, 512, 512, 10),
    "MLP 2×2048, 128": lambda: _dense(784, 2048, 2048, 10),
    "LeNet 32": _lenet,
    "small convnet 32": lambda: _convnet([8, "pool", 16, "pool", 16]),
    "ResNet-20 32": _resnet20,
    "LSTM 32": _lstm,
    "transformer block 16×64": _transformer,
    "embedding 50,000×64, Adam, 64": lambda: _embedding(50_000, 64),
}


def _optimiser(name: str, weights: Sequence[Any]) -> Any:
    from torch import optim

    if name == "adam":
        return optim.Adam(weights, RATES[name], fused=True)
    momentum = 0.9 if name == "momentum" else 0.0
    return optim.SGD(weights, RATES[name], momentum, fused=True)


def _stepper(
    model: str, channels_last: bool, rank: int, ranks: int
) -> tuple[Callable[[int], None], int]:
    """Returns a stepper on the share of one process, with the number of parameters."""
    import torch

    network = NETWORKS[model]
    torch.manual_seed(1)
    trained = MODELS[model]()
    layout = torch.channels_last if channels_last else torch.contiguous_format
    if channels_last:
        trained = trained.to(memory_format=layout)
    weights = [w for w in trained.parameters() if w.requires_grad]
    optimiser = _optimiser(network.optimiser, weights)
    if ranks > 1:
        trained = torch.nn.parallel.DistributedDataParallel(trained)
    ready = []
    for values in batches(model):
        x, y = (part[rank::ranks] for part in values)
        if x.ndim == 4:
            x = x.transpose(0, 3, 1, 2)
            x = x if channels_last else np.ascontiguousarray(x)
        ready.append((x, y.astype(np.int64)))
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            x, y = map(torch.from_numpy, ready[done % len(ready)])
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(trained(x), y).backward()
            optimiser.step()
            done += 1

    return step, sum(w.numel() for w in weights)


def torch_network(model: str, rows: int, channels_last: bool = False) -> Callable[[int], None]:
    """Trains by PyTorch in eager execution on all cores, fused optimisers, rows from NumPy.

    The stepper's `value()` is the number of trained parameters.
    """
    step, parameters = _stepper(model, channels_last, 0, 1)
    step.value = lambda: float(parameters)  # type: ignore[attr-defined]
    return step


def _join(rank: int, ranks: int, port: int) -> None:
    import torch

    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", address, rank=rank, world_size=ranks)


def _work(model: str, channels_last: bool, rank: int, ranks: int, port: int, counts: Any) -> None:
    _join(rank, ranks, port)
    step, _ = _stepper(model, channels_last, rank, ranks)
    while (count := counts.recv()) > 0:
        step(count)


def torch_distributed(model: str, rows: int, channels_last: bool = False) -> Callable[[int], None]:
    """Trains by `DistributedDataParallel` over gloo, a process of one thread on each core.

    The stepper's `value()` is the number of trained parameters.
    """
    ranks = len(os.sched_getaffinity(0))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    pipes = []
    for rank in range(1, ranks):
        counts, pipe = context.Pipe(duplex=False)
        arguments = (model, channels_last, rank, ranks, port, counts)
        context.Process(target=_work, args=arguments, daemon=True).start()
        pipes.append(pipe)
    _join(0, ranks, port)
    mine, parameters = _stepper(model, channels_last, 0, ranks)

    def step(count: int) -> None:
        for pipe in pipes:
            pipe.send(count)
        mine(count)

    step.value = lambda: float(parameters)  # type: ignore[attr-defined]
    return step
