"""One transformer block in bfloat16, forward only; every second step is recorded. Prints the times of the steps as
JSON: wall time until the device is done, the time the calling thread took to enqueue the step, and of all steps
together; bytes of a step's outputs. Arguments: steps, seconds to pause before each."""

import json
import sys
import time

import tdump
import torch


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.act = torch.nn.GELU()
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


def main() -> None:
    torch.manual_seed(0)
    model = Block(2048, 16).to("cuda", torch.bfloat16)
    x = torch.randn(8, 1024, 2048, device="cuda", dtype=torch.bfloat16)
    wall: list[float] = []
    enqueue: list[float] = []
    seen: list[int] = []
    hooks = [
        part.register_forward_hook(lambda m, a, out: seen.append(out.nbytes))
        for part in model.modules()
        if part is not model
    ]
    with torch.no_grad():
        model(x)
        for hook in hooks:
            hook.remove()
        begin = time.perf_counter()
        for _ in range(int(sys.argv[1])):
            time.sleep(float(sys.argv[2]))  # what a recorded step left goes to the disk: not the next step's cost
            torch.cuda.synchronize()
            start = time.perf_counter()
            tdump.step()
            model(x)
            enqueue.append(time.perf_counter() - start)
            torch.cuda.synchronize()
            wall.append(time.perf_counter() - start)
    all_steps = time.perf_counter() - begin
    print(json.dumps({"wall": wall, "enqueue": enqueue, "seconds": all_steps, "bytes": sum(seen)}))


main()
