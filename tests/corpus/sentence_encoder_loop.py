# /// script
# dependencies = ["sentence-transformers", "transformers", "tokenizers"]
# [tool.corpus]
# environment = "language"
# field = "sentence embeddings"
# source = "https://github.com/huggingface/sentence-transformers/issues/2384"
# optimizer = true
# ///
"""A sentence encoder and a linear head, trained together in a plain loop."""

import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import DistilBertConfig, DistilBertModel, PreTrainedTokenizerFast

torch.manual_seed(3)
words = "[PAD] [UNK] good great fine bad awful poor film book play".split()
backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
with tempfile.TemporaryDirectory() as folder:
    DistilBertModel(
        DistilBertConfig(vocab_size=len(words), dim=32, hidden_dim=64, n_layers=1, n_heads=2)
    ).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    ).save_pretrained(folder)
    transformer = Transformer(folder)
encoder = SentenceTransformer(
    modules=[transformer, Pooling(transformer.get_embedding_dimension())], device="cpu"
)
head = torch.nn.Linear(32, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=2e-3)

sentences = [f"{a} {b}" for a in words[2:8] for b in words[8:]]
labels = torch.tensor([int(s.split()[0] in ("good", "great", "fine")) for s in sentences])
encoder.train()
for epoch in range(10):
    features = encoder.tokenize(sentences)
    embeddings = encoder(features)["sentence_embedding"]
    loss = torch.nn.functional.cross_entropy(head(embeddings), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 3 == 0:
        print(f"epoch {epoch}: loss {loss.item():.4f}")
