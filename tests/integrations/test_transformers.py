"""The callback in a real Trainer of Transformers, with a small network of tokens."""

import warnings

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


def samples(mapping):
    """A data set as the Trainer takes it: mappings, one per sample."""
    return [{n: v[i] for n, v in mapping.items()} for i in range(len(mapping["labels"]))]


def draw(count, seed):
    """Sentences of 10 to 12 tokens of 30; most are of the ten tokens of a class, 0 pads."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    own = 1 + 10 * labels[:, None] + torch.randint(10, (count, 12), generator=rng)
    other = torch.randint(1, 31, (count, 12), generator=rng)
    ids = torch.where(torch.rand(count, 12, generator=rng) < 0.8, own, other)
    mask = (torch.arange(12) < torch.randint(10, 13, (count, 1), generator=rng)).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=31,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=12,
            num_labels=3,
        )
    )


def test_the_quality_joins_the_metrics_and_the_guard_is_made(model, tmp_path):
    from nescio.integrations import TransformersCallback

    sent = []
    check = TransformersCallback(
        samples(draw(400, 1)), train=samples(draw(256, 0)), risk=0.1, log=sent.append
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                str(tmp_path),
                num_train_epochs=4,
                per_device_train_batch_size=32,
                learning_rate=1e-2,
                eval_strategy="epoch",
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=samples(draw(256, 0)),
            eval_dataset=samples(draw(200, 2)),
            callbacks=[check],
        )
        trainer.train()
        found = trainer.evaluate()
    assert found["eval_nescio_nll"] == pytest.approx(found["eval_loss"], abs=1e-5)
    assert sent[-1]["eval_nescio_ece"] == found["eval_nescio_ece"]
    assert check.numbers["guard_coverage"] > 0.5
    assert any("nescio_guard_coverage" in one for one in trainer.state.log_history)
    new = draw(60, 3)
    labels = new.pop("labels")
    assert check.guard(new).summary(labels)["risk"] <= 0.1
