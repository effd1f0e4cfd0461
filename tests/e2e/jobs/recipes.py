"""Trains a small model for two steps once per configuration given, each in a forked process, so that torch is imported
once. Writes runs/<name of the configuration>."""

import os
import sys
from pathlib import Path

import tdump_autoload
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.Linear(4, 4)
        self.dropout = torch.nn.Dropout(0.0)

    def forward(self, x):
        return x + self.dropout(self.attention(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(8, 4)
        self.layers = torch.nn.ModuleDict({"3": Block(), "40": Block()})

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers.values():
            x = layer(x)
        return x


def train():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        loss = model(input_ids=torch.tensor([[1, 2, 3 + step]])).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for config in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.environ.update(TDUMP_CONFIG=config, TDUMP_DIR=f"runs/{Path(config).stem}")
        tdump_autoload.load()  # what `import torch` calls
        train()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, (config, status)
