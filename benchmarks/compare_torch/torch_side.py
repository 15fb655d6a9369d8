# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of the comparison; compare.py runs it, README.md says what is measured.

    torch_side.py --what llama|resnet|operations|generate --count N --mode eager|compile --threads N

With WORLD_SIZE above 1, DistributedDataParallel over gloo.
"""
import argparse
import json
import os
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def report(name, seconds, **more):
    print(json.dumps({"measure": name, "median_us": 1e6 * statistics.median(seconds), "min_us": 1e6 * min(seconds),
                      "count": len(seconds), **more}), flush=True)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM  # pylint: disable=import-outside-toplevel
    return LlamaForCausalLM(LlamaConfig(vocab_size=4096, hidden_size=256, intermediate_size=688, num_hidden_layers=4,
                                        num_attention_heads=8, num_key_value_heads=4, attn_implementation="sdpa"))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """torchvision's resnet18 with 16 features in the first stage."""

    def __init__(self, width=16, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        stages = [Block(width, width, 1), Block(width, width, 1)]
        for stage in range(3):
            stages += [Block(width << stage, width << (stage + 1), 2),
                       Block(width << (stage + 1), width << (stage + 1), 1)]
        self.stages, self.fc = nn.Sequential(*stages), nn.Linear(8 * width, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.stages(x).mean((2, 3)))


def train(what, steps, mode):
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
    if what == "llama":
        model = llama()
        ids = torch.randint(0, 4096, (8, 128)).chunk(WORLD)[RANK]

        def loss_of(module):
            return module(input_ids=ids, labels=ids).loss
    else:
        model = ResNet()
        pictures = torch.randn(32, 3, 64, 64).chunk(WORLD)[RANK]
        labels = torch.randint(0, 10, (32,)).chunk(WORLD)[RANK]

        def loss_of(module):
            return F.cross_entropy(module(pictures), labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    module = nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model
    if mode == "compile":
        module = torch.compile(module)

    def step():
        optimizer.zero_grad()
        loss = loss_of(module)
        loss.backward()
        optimizer.step()
        return loss.item()
    begin = time.perf_counter()
    step()
    first = time.perf_counter() - begin
    step()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - begin)
    if RANK == 0:
        report(what, times, first_s=first, loss=loss)
    print(json.dumps({"measure": "memory", "process": RANK,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


def measure(name, calls, f):
    times = []
    for i in range(calls + 2):
        begin = time.perf_counter()
        f()
        if i >= 2:
            times.append(time.perf_counter() - begin)
    report(name, times)


def products(calls):
    x, head, up, g = torch.randn(1024, 256), torch.randn(4096, 256), torch.randn(688, 256), torch.randn(1024, 4096)
    measure("x w^T, [1024,256] [4096,256]", calls, lambda: F.linear(x, head))
    measure("x w^T, [1024,256] [688,256]", calls, lambda: F.linear(x, up))
    measure("g w, [1024,4096] [4096,256]", calls, lambda: g @ head)
    measure("g^T x, [1024,4096] [1024,256]", calls, lambda: g.T @ x)
    rows, experts, sizes = torch.randn(2048, 512), torch.randn(8, 512, 512), [300, 212, 0, 256, 500, 1, 523, 256]

    def of_groups(rows, experts):  # as a Mixtral of transformers multiplies on CPUs
        return torch.cat([part @ expert for part, expert in zip(rows.split(sizes), experts)])
    measure("8 groups of rows, [2048,512] [8,512,512]", calls, lambda: of_groups(rows, experts))

    @torch.enable_grad()
    def gradient_of_groups():
        (of_groups(rows.detach().requires_grad_(), experts.detach().requires_grad_()) ** 2).sum().backward()
    measure("8 groups of rows, and both derivatives", calls, gradient_of_groups)


def rotate(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def parts_of_models(calls):
    x, g, labels = torch.randn(1024, 256), torch.randn(1024, 4096), torch.randint(0, 4096, (1024,))
    measure("cross entropy of [1024,4096]", calls, lambda: F.cross_entropy(g, labels))

    @torch.enable_grad()
    def gradient_of_entropy():
        F.cross_entropy(g.detach().requires_grad_(), labels).backward()
    measure("gradient of the cross entropy", calls, gradient_of_entropy)
    q, k = torch.randn(8, 8, 128, 32), torch.randn(8, 4, 128, 32)

    def attention(q, k):
        return F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
    measure("causal attention [8,128,8,32], 4 key heads", calls, lambda: attention(q, k))
    long_q, long_k = torch.randn(1, 8, 1024, 64), torch.randn(1, 8, 1024, 64)
    measure("causal attention [1,1024,8,64]", calls, lambda: attention(long_q, long_k))

    @torch.enable_grad()
    def gradient_of_attention():
        (attention(q.detach().requires_grad_(), k) ** 2).sum().backward()
    measure("causal attention, by the queries", calls, gradient_of_attention)
    angles = torch.randn(1 << 20)
    measure("sin(x) + cos(x), [1048576]", calls, lambda: angles.sin() + angles.cos())
    h = torch.randn(1024, 688)
    measure("silu(h) h, [1024,688]", calls, lambda: F.silu(h) * h)
    measure("rms_norm [1024,256]", calls, lambda: F.rms_norm(x, (256,)))
    cos, sin = torch.randn(128, 32), torch.randn(128, 32)
    measure("rotary embedding [8,128,8,32]", calls, lambda: q * cos + rotate(q) * sin)
    norm, pictures = nn.BatchNorm2d(16), torch.randn(32, 16, 16, 16)
    measure("batch norm [32,16,16,16], training", calls, lambda: norm(pictures))
    p = torch.randn(3_000_000, requires_grad=True)
    p.grad = torch.randn(3_000_000)
    measure("adamw of 3 million", calls, torch.optim.AdamW([p]).step)


def sorts(calls):
    x, rows = torch.randn(1 << 18), torch.randn(64, 32000)
    measure("sort [262144]", calls, lambda: torch.sort(x, stable=True).values)
    measure("sort [64,32000]", calls, lambda: torch.sort(rows, stable=True).values)
    measure("argsort [262144]", calls, lambda: torch.argsort(x, stable=True))


def convolutions(calls):
    for batch, size, inputs, outputs, window, stride, groups in (
            (32, 64, 3, 16, 7, 2, 1), (32, 16, 16, 16, 3, 1, 1), (32, 8, 32, 32, 3, 1, 1), (32, 4, 64, 64, 3, 1, 1),
            (32, 2, 128, 128, 3, 1, 1), (32, 16, 64, 64, 3, 1, 1), (8, 56, 64, 64, 3, 1, 1), (8, 56, 64, 256, 1, 1, 1),
            (8, 28, 64, 128, 3, 2, 1), (8, 56, 64, 64, 3, 1, 64), (8, 56, 64, 64, 3, 2, 64), (8, 14, 256, 256, 7, 1, 256),
            (8, 28, 128, 128, 3, 1, 32)):
        x, w = torch.randn(batch, inputs, size, size), torch.randn(outputs, inputs // groups, window, window)
        around = window // 2
        y = F.conv2d(x, w, stride=stride, padding=around, groups=groups)
        name = (f"convolution [{batch},{size},{size},{inputs}] to {outputs}, {window} x {window}"
                + (f", stride {stride}" if stride > 1 else "") + (f", {groups} groups" if groups > 1 else ""))

        def backward(*wanted, x=x, w=w, y=y, stride=stride, around=around, groups=groups):
            return torch.ops.aten.convolution_backward(y, x, w, None, (stride, stride), (around, around), (1, 1), False,
                                                       (0, 0), groups, (*wanted, False))

        def forward(x=x, w=w, stride=stride, around=around, groups=groups):
            return F.conv2d(x, w, stride=stride, padding=around, groups=groups)
        measure(name, calls, forward)
        measure(name + ", by the pictures", calls, lambda backward=backward: backward(True, False))
        measure(name + ", by the kernels", calls, lambda backward=backward: backward(False, True))
    x = torch.randn(32, 16, 32, 32)
    measure("max_pool [32,32,32,16], 3 x 3, stride 2", calls, lambda: F.max_pool2d(x, 3, 2, 1))

    @torch.enable_grad()
    def gradient():
        F.max_pool2d(x.detach().requires_grad_(), 3, 2, 1).sum().backward()
    measure("max_pool, by the pictures", calls, gradient)


def generate(calls):
    model, prompt = llama().eval(), torch.randint(0, 4096, (2, 16))
    model.generation_config.eos_token_id = None
    times = []
    for i in range(calls + 1):
        begin = time.perf_counter()
        made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=100, do_sample=False)
        assert made.shape == (2, 116)
        if i > 0:
            times.append((time.perf_counter() - begin) / 100)
    report("a token of greedy generation", times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--what", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), default="eager")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.what in ("llama", "resnet"):
        train(options.what, options.count, options.mode)
        return
    with torch.no_grad():
        if options.what == "operations":
            products(options.count)
            parts_of_models(options.count)
            sorts(options.count)
            convolutions(options.count)
        else:
            generate(options.count)


main()
