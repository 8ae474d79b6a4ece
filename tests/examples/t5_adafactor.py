"""A T5 classifier under Lightning with the optimizer of transformers: does not train with 2.0.3 and 4.30.2."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor


class T5Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        config = T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
        self.t5 = T5ForConditionalGeneration(config)
        self.classifier = nn.Linear(config.d_model, 4)

    def forward(self, input_ids, decoder_input_ids):
        outputs = self.t5(input_ids=input_ids, decoder_input_ids=decoder_input_ids, output_hidden_states=True)
        return self.classifier(outputs.decoder_hidden_states[-1][:, -1])

    def training_step(self, batch, batch_idx):
        input_ids, decoder_input_ids, labels = batch
        return nn.functional.cross_entropy(self(input_ids, decoder_input_ids), labels)

    def configure_optimizers(self):
        return Adafactor(self.parameters(), lr=1e-3, scale_parameter=False, relative_step=False)


if __name__ == "__main__":
    L.seed_everything(0)
    data = TensorDataset(torch.randint(2, 64, (64, 12)), torch.randint(2, 64, (64, 5)), torch.randint(4, (64,)))
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(T5Classifier(), DataLoader(data, batch_size=8))
