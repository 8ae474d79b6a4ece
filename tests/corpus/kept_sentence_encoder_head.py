# /// script
# dependencies = ["sentence-transformers", "transformers", "tokenizers"]
# [tool.corpus]
# environment = "language"
# field = "sentence embeddings"
# source = "https://github.com/huggingface/sentence-transformers/issues/274"
# optimizer = true
# kept_out = true
# ///
"""A sentence encoder and a classifier on top of it are trained together in a plain loop."""

import tempfile

import torch
from sentence_transformers import SentenceTransformer, models, util
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

torch.manual_seed(0)
good = ["great film", "lovely actors", "great story", "a lovely scene"]
bad = ["awful film", "boring actors", "awful story", "a boring scene"]
sentences, labels = good + bad, torch.tensor([1] * 4 + [0] * 4)

words = ["[PAD]", "[UNK]"] + sorted({w for s in sentences for w in s.split()})
backend = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
backend.pre_tokenizer = Whitespace()
path = tempfile.mkdtemp()
PreTrainedTokenizerFast(
    tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
).save_pretrained(path)
BertModel(
    BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
).save_pretrained(path)

transformer = models.Transformer(path)
pooling = models.Pooling(32)
encoder = SentenceTransformer(modules=[transformer, pooling], device="cpu")


class Classifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(32, 2)

    def forward(self, texts):
        features = util.batch_to_device(self.encoder.tokenize(texts), "cpu")
        embeddings = self.encoder(features)["sentence_embedding"]
        return self.head(embeddings)


model = Classifier(encoder)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_fct = nn.CrossEntropyLoss()
model.train()
for epoch in range(10):
    optimizer.zero_grad()
    logits = model(sentences)
    loss = loss_fct(logits, labels)
    loss.backward()
    optimizer.step()
    print(epoch, round(loss.item(), 4))
