# /// script
# dependencies = ["setfit", "sentence-transformers", "transformers", "tokenizers", "datasets"]
# [tool.corpus]
# environment = "language"
# field = "few-shot classification"
# source = "https://huggingface.co/docs/setfit/quickstart"
# optimizer = true
# ///
"""SetFit: contrastive pairs tune a small sentence encoder, then a logistic head is fitted."""

import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import MPNetConfig, MPNetModel, PreTrainedTokenizerFast, set_seed

set_seed(0)
words = "<pad> <unk> loved hated film book great bad boring thrilling plot actor".split()
backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
with tempfile.TemporaryDirectory() as folder:
    config = MPNetConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=24, pad_token_id=0,
    )
    MPNetModel(config, add_pooling_layer=False).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", model_max_length=16
    ).save_pretrained(folder)
    transformer = Transformer(folder)
body = SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu")
model = SetFitModel(model_body=body, model_head=LogisticRegression())

texts = ["loved film great", "great thrilling plot", "loved actor", "thrilling book"]
texts += ["hated film bad", "bad boring plot", "hated actor", "boring book"]
dataset = Dataset.from_dict({"text": texts, "label": [1, 1, 1, 1, 0, 0, 0, 0]})
args = TrainingArguments(
    batch_size=8, num_epochs=2, body_learning_rate=1e-3, save_strategy="no", report_to="none"
)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
trainer.train()
print(f"accuracy {(model.predict(texts, as_numpy=True) == dataset['label']).mean():.2f}")
