# SPDX-License-Identifier: Apache-2.0
"""Writes the small random ResNet of this folder, pictures, and what torch computes of them.

    python3 tests/models/resnet/generate.py       # needs torch, numpy and safetensors

model.safetensors has the arrays of torchvision's ResNet(BasicBlock, [1, 1, 1, 1]) of 4 features. expected.json has the
loss and the accuracy on the test pictures before and after a training, and the losses of its steps, each of which sees
all training pictures.
"""

import json
import pathlib

import numpy
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

WIDTH, STEPS, RATE, DECAY = 4, 6, 0.1, 0.01


class Block(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        stride = 1 if ins == outs else 2
        self.conv1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outs)
        self.conv2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outs)
        self.downsample = None
        if ins != outs:
            self.downsample = nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """torchvision's, whose names these are."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, WIDTH, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        for i in range(4):
            setattr(self, f"layer{i + 1}", nn.Sequential(Block(WIDTH << max(0, i - 1), WIDTH << i)))
        self.fc = nn.Linear(8 * WIDTH, classes)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def pictures(folder, part, count):
    """Noise with a bright stripe: a row of it for label 0, a column for 1, both for 2."""
    draw = numpy.random.default_rng(count)
    images = draw.integers(0, 120, (count, 32, 32, 3), numpy.uint8)
    labels = numpy.arange(count, dtype=numpy.int64) % 3
    for image, label, at in zip(images, labels, draw.integers(0, 28, count)):
        if label != 1:
            image[at:at + 4] += 130
        if label != 0:
            image[:, at:at + 4] = numpy.maximum(image[:, at:at + 4], 150)
    numpy.save(folder / f"{part}_images.npy", images)
    numpy.save(folder / f"{part}_labels.npy", labels)
    return torch.tensor(images).permute(0, 3, 1, 2).float() / 255, torch.tensor(labels)


def main():
    here = pathlib.Path(__file__).parent
    torch.manual_seed(0)
    net = ResNet(3, 3)
    for name, buffer in net.named_buffers():
        if "running_mean" in name:
            buffer.normal_(0, 0.1)
        if "running_var" in name:
            buffer.uniform_(0.5, 1.5)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    save_file(net.state_dict(), here / "model.safetensors")
    images, labels = pictures(here, "train", 12)
    test_images, test_labels = pictures(here, "test", 9)

    def test():
        net.eval()
        with torch.no_grad():
            logits = net(test_images)
        net.train()
        return [float(f"{functional.cross_entropy(logits, test_labels).item():.7g}"),
                (logits.argmax(-1) == test_labels).float().mean().item()]

    optimizer = torch.optim.SGD([{"params": [p for p in net.parameters() if (p.ndim > 1) == kernels],
                                  "weight_decay": DECAY if kernels else 0.0} for kernels in (True, False)],
                                lr=RATE, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    expected = {"torch": torch.__version__, "before": test(), "losses": []}
    for _ in range(STEPS):
        loss = functional.cross_entropy(net(images), labels)
        expected["losses"].append(float(f"{loss.item():.7g}"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    expected["after"] = test()
    (here / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
