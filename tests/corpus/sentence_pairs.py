# /// script
# dependencies = ["sentence-transformers", "transformers", "tokenizers", "datasets"]
# [tool.corpus]
# environment = "language"
# field = "sentence embeddings"
# source = "https://sbert.net/docs/sentence_transformer/training_overview.html"
# optimizer = true
# ///
"""SentenceTransformerTrainer with a small BERT, mean pooling and in-batch negatives."""

import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, set_seed

set_seed(12)
words = "[PAD] [UNK] cat dog bird fish sleeps eats sings swims animal rests food song water".split()
backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
with tempfile.TemporaryDirectory() as folder:
    BertModel(
        BertConfig(
            vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=16,
        )
    ).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    ).save_pretrained(folder)
    transformer = Transformer(folder)
    model = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension())], device="cpu"
    )

train_dataset = Dataset.from_dict(
    {
        "anchor": ["cat sleeps", "dog eats", "bird sings", "fish swims"] * 8,
        "positive": ["animal rests", "animal food", "song bird", "water fish"] * 8,
    }
)
args = SentenceTransformerTrainingArguments(
    output_dir="pairs", num_train_epochs=2, per_device_train_batch_size=4, learning_rate=2e-3,
    logging_steps=4, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
)
trainer = SentenceTransformerTrainer(
    model=model, args=args, train_dataset=train_dataset, loss=MultipleNegativesRankingLoss(model)
)
print(f"loss {trainer.train().training_loss:.3f}")
