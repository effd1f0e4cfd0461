"""The decoder as Megatron-Core names and splits it, on the ranks of an MPI launcher; they meet through gloo.

python decoder_megatron.py FILE --store PATH [--dtype float32|bfloat16] [--fp8] [--partials] [--wrong-scale RANK:MODULE:F]

Activations are [context, batch, width] between the layers, the vocabulary is padded to a multiple of 128 for each rank,
query, key and value of a group stand beside each other in one projection, gate and up of a rank in another. Linear layers
return their output and a bias that is None.

--fp8          simulated, as in lossy_minilm.py: each rank's linear layers round their input and their weight, one scale for
               each of the rank's tensors
--wrong-scale  on that rank, that linear layer multiplies its rounded input by F times the scale it divided by
--partials     a tap on what a rank gives to a sum
"""

from __future__ import annotations

import argparse
import math
import os

import decoder
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
WORLD = int(os.environ["OMPI_COMM_WORLD_SIZE"])
PADDED = math.ceil(decoder.VOCABULARY / (128 * WORLD)) * 128 * WORLD
HEADS, GROUPS, HEAD_WIDTH = decoder.HEADS, decoder.GROUPS, decoder.HEAD_WIDTH


def part(whole: torch.Tensor, dim: int) -> torch.Tensor:
    return whole.chunk(WORLD, dim)[RANK].contiguous()


class ParallelLinear(nn.Module):
    """What the two kinds share: a weight that exists in parts, and in which precision it is used."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.fp8 = False
        self.wrong_factor = 1.0

    def multiply(self, x: torch.Tensor) -> torch.Tensor:
        if not self.fp8:
            return F.linear(x, self.weight)
        x = through_float8(x, self.wrong_factor)
        return F.linear(x, through_float8(self.weight))


def through_float8(x: torch.Tensor, wrong_factor: float = 1.0) -> torch.Tensor:
    scale = x.abs().amax() / torch.finfo(torch.float8_e4m3fn).max
    return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * (scale * wrong_factor)


class ColumnParallelLinear(ParallelLinear):
    def forward(self, input_: torch.Tensor) -> tuple[torch.Tensor, None]:
        return self.multiply(input_), None


class RowParallelLinear(ParallelLinear):
    partials = False

    def forward(self, input_: torch.Tensor) -> tuple[torch.Tensor, None]:
        output = self.multiply(input_)
        if self.partials:
            import tdump

            tdump.tap(output, "partial")
        dist.all_reduce(output)
        return output, None


class VocabParallelEmbedding(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, input_: torch.Tensor) -> torch.Tensor:
        local = input_ - RANK * len(self.weight)
        elsewhere = (local < 0) | (local >= len(self.weight))
        output = F.embedding(local.masked_fill(elsewhere, 0), self.weight)
        output = output.masked_fill(elsewhere.unsqueeze(-1), 0)
        dist.all_reduce(output)
        return output


class LanguageModelEmbedding(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.word_embeddings = VocabParallelEmbedding(weight)
        self.embedding_dropout = nn.Dropout(0.0)

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        return self.embedding_dropout(self.word_embeddings(input_ids).transpose(0, 1).contiguous())


class RotaryEmbedding(nn.Module):
    """[context, 1, 1, width of a head]: the angles, for the first and the second half of a head."""

    def __init__(self) -> None:
        super().__init__()
        exponents = torch.arange(0, HEAD_WIDTH, 2, dtype=torch.float32) / HEAD_WIDTH
        self.inv_freq = 1.0 / decoder.THETA**exponents

    def forward(self, max_seq_len: int) -> torch.Tensor:
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float32), self.inv_freq)
        return torch.cat((angles, angles), dim=-1)[:, None, None, :]


def rotate(t: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    first, second = t.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return t * angles.cos().to(t.dtype) + turned * angles.sin().to(t.dtype)


class RMSNorm(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + decoder.EPSILON)
        return self.weight * wide.to(x.dtype)


class FusedScaleMaskSoftmax(nn.Module):
    def forward(self, input: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(input.masked_fill(mask, -10000.0), dim=-1)


class DotProductAttention(nn.Module):
    """query [context, batch, heads, head width], key and value with a head for each group -> [context, batch, width]"""

    def __init__(self) -> None:
        super().__init__()
        self.scale_mask_softmax = FusedScaleMaskSoftmax()
        self.attention_dropout = nn.Dropout(0.0)

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        shared = query.size(2) // key.size(2)
        key, value = (t.repeat_interleave(shared, dim=2) for t in (key, value))
        query, key, value = (t.permute(1, 2, 0, 3) for t in (query, key, value))
        scores = query @ key.transpose(2, 3) / math.sqrt(HEAD_WIDTH)
        weights = self.attention_dropout(self.scale_mask_softmax(scores, attention_mask))
        return (weights @ value).permute(2, 0, 1, 3).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self, qkv: torch.Tensor, proj: torch.Tensor) -> None:
        super().__init__()
        self.core_attention = DotProductAttention()
        self.linear_proj = RowParallelLinear(proj)
        self.linear_qkv = ColumnParallelLinear(qkv)

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor, rotary_pos_emb: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        mixed, _ = self.linear_qkv(hidden_states)
        mixed = mixed.unflatten(-1, (GROUPS // WORLD, -1))  # of a group: its queries, its key, its value
        query, key, value = mixed.split((HEADS // GROUPS * HEAD_WIDTH, HEAD_WIDTH, HEAD_WIDTH), dim=-1)
        query = query.reshape(*query.shape[:2], -1, HEAD_WIDTH)
        query, key = rotate(query, rotary_pos_emb), rotate(key, rotary_pos_emb)
        return self.linear_proj(self.core_attention(query, key, value, attention_mask))


class MLP(nn.Module):
    def __init__(self, fc1: torch.Tensor, fc2: torch.Tensor) -> None:
        super().__init__()
        self.linear_fc1 = ColumnParallelLinear(fc1)
        self.linear_fc2 = RowParallelLinear(fc2)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
        gate, up = self.linear_fc1(hidden_states)[0].chunk(2, dim=-1)
        return self.linear_fc2(F.silu(gate) * up)


class TransformerLayer(nn.Module):
    def __init__(self, weights: dict[str, torch.Tensor], prefix: str) -> None:
        super().__init__()

        def given(name: str) -> torch.Tensor:
            return weights[f"{prefix}.{name}.weight"]

        self.input_layernorm = RMSNorm(given("input_layernorm"))
        q, k, v = (given(f"self_attn.{n}_proj").unflatten(0, (GROUPS, -1)) for n in "qkv")
        qkv = torch.cat((q, k, v), dim=1).flatten(0, 1)  # group after group
        self.self_attention = SelfAttention(part(qkv, 0), part(given("self_attn.o_proj"), 1))
        self.pre_mlp_layernorm = RMSNorm(given("post_attention_layernorm"))
        fc1 = torch.cat((part(given("mlp.gate_proj"), 0), part(given("mlp.up_proj"), 0)))
        self.mlp = MLP(fc1, part(given("mlp.down_proj"), 1))

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor, rotary_pos_emb: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        attended, _ = self.self_attention(self.input_layernorm(hidden_states), attention_mask, rotary_pos_emb)
        hidden_states = hidden_states + attended
        return hidden_states + self.mlp(self.pre_mlp_layernorm(hidden_states))[0], None


class TransformerBlock(nn.Module):
    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(weights, f"model.layers.{i}") for i in range(decoder.LAYERS))
        self.final_layernorm = RMSNorm(weights["model.norm.weight"])

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor, rotary_pos_emb: torch.Tensor
    ) -> torch.Tensor:
        for layer in self.layers:
            hidden_states, _ = layer(hidden_states, attention_mask, rotary_pos_emb)
        return self.final_layernorm(hidden_states)


class GPTModel(nn.Module):
    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()

        def padded(name: str) -> torch.Tensor:
            whole = weights[name]
            return torch.cat((whole, torch.randn(PADDED - len(whole), whole.size(1))))

        self.embedding = LanguageModelEmbedding(part(padded("model.embed_tokens.weight"), 0))
        self.rotary_pos_emb = RotaryEmbedding()
        self.decoder = TransformerBlock(weights)
        self.output_layer = ColumnParallelLinear(part(padded("lm_head.weight"), 0))

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """int64 [batch, context] -> this rank's columns of the logits, [batch, context, padded vocabulary / ranks]"""
        hidden_states = self.embedding(input_ids, position_ids)
        rotary_pos_emb = self.rotary_pos_emb(len(hidden_states))
        logits, _ = self.output_layer(self.decoder(hidden_states, attention_mask, rotary_pos_emb))
        return logits.transpose(0, 1).contiguous()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--store", required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--fp8", action="store_true")
    parser.add_argument("--partials", action="store_true")
    parser.add_argument("--wrong-scale", default=f"{WORLD}::1")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=RANK, world_size=WORLD)
    given = torch.load(args.file)
    RowParallelLinear.partials = args.partials
    model = GPTModel(given["weights"]).eval().to(getattr(torch, args.dtype))
    for module in model.modules():
        if isinstance(module, ParallelLinear):
            module.fp8 = args.fp8
    rank, module, factor = args.wrong_scale.split(":")
    if int(rank) == RANK:
        model.get_submodule(module).wrong_factor = float(factor)

    mask = torch.ones(1, 1, decoder.CONTEXT, decoder.CONTEXT, dtype=torch.bool).triu(1)
    position_ids = torch.arange(decoder.CONTEXT).expand(decoder.BATCH, -1)
    with torch.inference_mode():
        for input_ids in given["tokens"]:
            logits = model(input_ids=input_ids, position_ids=position_ids, attention_mask=mask)
            parts = [torch.empty_like(logits) for _ in range(WORLD)]
            dist.all_gather(parts, logits)
            whole = torch.cat(parts, dim=-1)[..., : decoder.VOCABULARY].double()
            if RANK == 0:
                print("logits", whole.sum().item(), whole.norm().item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
