# SPDX-License-Identifier: Apache-2.0
"""Trains one step with the Trainer of a released Transformers on a CPU, once with all rows in one batch and once with
one row in each of four micro-batches, and prints the ratio of the two updates. It must be 1.

The models are a Llama, a GPT-2 and a T5 of width 16. The optimiser is SGD with rate 1, and clipping never binds. All
rows have the same number of labels. scripts/release-steps calls this program once for each release.

usage: trainer_step.py [NAME...]   prints one JSON line for each model, by name
The release is the first folder in PYTHONPATH that contains `transformers`.
"""
import json
import os
import sys
import tempfile
import warnings

os.environ.update(
    TRANSFORMERS_VERBOSITY="error",
    CUDA_VISIBLE_DEVICES="",
    TOKENIZERS_PARALLELISM="0",
    WANDB_DISABLED="true",
    HF_HUB_OFFLINE="1",
)
warnings.filterwarnings("ignore")

import torch
import transformers

WORDS, WIDTH, LENGTH, ROWS = 32, 16, 16, 4


def llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=WORDS,
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
    )


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=WORDS,
            n_embd=WIDTH,
            n_layer=1,
            n_head=2,
            n_positions=2 * LENGTH,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def t5():
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=WORDS,
            d_model=WIDTH,
            d_kv=WIDTH // 2,
            d_ff=WIDTH,
            num_layers=1,
            num_heads=2,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )


class OwnLoss(transformers.Trainer):
    """A Trainer whose compute_loss ignores the number of labels in the step, as the code of many users does."""

    def compute_loss(self, model, inputs, return_outputs=False, **unused):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


CASES = {
    "llama": (llama, transformers.Trainer),
    "gpt2": (gpt2, transformers.Trainer),
    "t5": (t5, transformers.Trainer),
    "llama-own-loss": (llama, OwnLoss),
}


def rows():
    generator = torch.Generator().manual_seed(1)
    for _ in range(ROWS):
        words = torch.randint(0, WORDS, (LENGTH,), generator=generator)
        yield {"input_ids": words, "labels": words.clone(), "attention_mask": torch.ones(LENGTH, dtype=torch.long)}


def train(make, trainer, batch, micro_batches, folder):
    """Returns the update of all weights and the logged loss."""
    torch.manual_seed(0)
    model = make()
    before = [weight.detach().clone() for weight in model.parameters()]
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=micro_batches,
        max_steps=1,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        max_grad_norm=1e9,
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=True,
        learning_rate=1.0,
        lr_scheduler_type="constant",
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    one = trainer(model=model, args=arguments, train_dataset=list(rows()), optimizers=(optimizer, schedule))
    one.train()
    update = torch.cat([(w.detach() - b).flatten() for w, b in zip(model.parameters(), before)])
    return update, float(one.state.log_history[0]["loss"])


def main():
    for name in sys.argv[1:] or CASES:
        make, trainer = CASES[name]
        try:
            with tempfile.TemporaryDirectory() as folder:
                whole = train(make, trainer, ROWS, 1, folder)
                parts = train(make, trainer, 1, ROWS, folder)
            found = {
                "ratio": round((parts[0].norm() / whole[0].norm()).item(), 4),
                "loss_ratio": round(parts[1] / whole[1], 2),
            }
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"}
        print("STEP " + json.dumps({"config": name, **found}), flush=True)


if __name__ == "__main__":
    main()
