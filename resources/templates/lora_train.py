"""LoRA fine-tuning of a causal language model, started by torchrun (see torchrun-lora.yaml).

Reads model/ and train.jsonl, writes the adapter to $COVEY_OUTPUT/adapter. Rank 0 prints the loss.
"""

import json
import os

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH = 4
LONGEST = 512  # tokens of a record; what is longer is cut off


def batches(records, tokenizer, rank, world):
    """This rank's records: as many for each, so that none waits for gradients of one that has finished."""
    own = records[rank::world][: len(records) // world]
    for start in range(0, len(own), BATCH):
        tokens = tokenizer(
            own[start : start + BATCH], return_tensors="pt", padding=True, truncation=True, max_length=LONGEST
        )
        labels = tokens["input_ids"].masked_fill(tokens["attention_mask"] == 0, -100)
        yield {**tokens, "labels": labels}


def main():
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)

    tokenizer = AutoTokenizer.from_pretrained("model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained("model", torch_dtype=torch.bfloat16 if cuda else torch.float32)
    config = LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear")
    model = get_peft_model(model, config).to(device)
    parallel = DistributedDataParallel(model, device_ids=[device.index] if cuda else None)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=float(os.environ["LEARNING_RATE"]))

    with open("train.jsonl", encoding="utf-8") as lines:
        records = [json.loads(line)["text"] for line in lines if line.strip()]
    if len(records) < world:
        raise SystemExit(f"train.jsonl has {len(records)} records for {world} processes")
    parallel.train()
    step = 0
    for epoch in range(int(os.environ["EPOCHS"])):
        for batch in batches(records, tokenizer, rank, world):
            loss = parallel(**{name: tensor.to(device) for name, tensor in batch.items()}).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    if rank == 0:
        model.save_pretrained(os.path.join(os.environ["COVEY_OUTPUT"], "adapter"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
