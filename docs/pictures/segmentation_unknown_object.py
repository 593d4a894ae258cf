"""A segmentation network labels an object it has never seen, and most of its pixels confidently."""

import torch
from matplotlib.figure import Figure

import nescio
from nescio import models, nets

NAMES = ("ground", "ball", "box")


def draw() -> Figure:
    """Balls and boxes in training, a cross of another color at the end."""
    draws = torch.Generator().manual_seed(0)
    x, y = scenes(160, draws)
    model = nescio.train(
        lambda: nets.unet((3, 32, 32), 3, width=8, depth=3, dropout=0.3),
        (x, y),
        epochs=25,
        batch_size=20,
        learning_rate=0.01,
        seed=0,
    )
    image, _ = scenes(1, torch.Generator().manual_seed(28))
    cross = torch.zeros(32, 32, dtype=torch.bool)
    cross[4:18, 9:13] = cross[9:13, 4:18] = True
    image[0, :, cross] = torch.tensor([0.95, 0.85, 0.1])[:, None]
    maps = models.uncertainty_maps(models.mc_dropout(model, passes=50), image)
    answered = maps.labels[0][cross].mode().values
    figure = Figure(figsize=(7, 2.4), layout="constrained")
    panels = figure.subplots(1, 4)
    shown = [
        (image[0].movedim(0, -1), "image: the cross\nis of no class", {}),
        (maps.labels[0], f"predicted class:\ncross = {NAMES[answered]}", {"cmap": "cividis"}),
        (
            maps.confidence[0],
            f"confidence:\ncross {maps.confidence[0][cross].mean():.3f}",
            {"cmap": "gray", "vmin": 1 / 3, "vmax": 1},
        ),
        (
            maps.mutual_information[0],
            f"mutual information:\ncross {maps.mutual_information[0][cross].mean():.4f}",
            {"cmap": "magma", "vmin": 0, "vmax": 1.1},
        ),
    ]
    for panel, (values, title, how) in zip(panels, shown, strict=True):
        drawn = panel.imshow(values, **how)
        panel.set_title(title, fontsize=9)
        panel.set(xticks=[], yticks=[])
        if "vmin" in how:
            figure.colorbar(drawn, ax=panel, shrink=0.6, ticks=[0, 0.5, 1])
    return figure


def scenes(count: int, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of a noisy ground with a red ball and a blue box, and their label maps."""
    x = 0.35 + 0.08 * torch.randn(count, 3, 32, 32, generator=draws)
    y = torch.zeros(count, 32, 32, dtype=torch.long)
    rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    for number in range(count):
        for kind, color in ((1, (0.8, 0.2, 0.2)), (2, (0.2, 0.3, 0.8))):
            row, column = torch.randint(6, 26, (2,), generator=draws).tolist()
            size = float(torch.randint(3, 6, (1,), generator=draws))
            away = torch.stack([(rows - row).abs(), (columns - column).abs()]).float()
            inside = (away.norm(dim=0) if kind == 1 else away.amax(0)) <= size
            y[number, inside] = kind
            x[number, :, inside] += torch.tensor(color)[:, None] - 0.35
    return x.clamp(0, 1), y
