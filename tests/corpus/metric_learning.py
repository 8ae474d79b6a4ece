# /// script
# dependencies = ["pytorch-metric-learning"]
# [tool.corpus]
# environment = "vision"
# field = "Metric learning"
# source = "https://kevinmusgrave.github.io/pytorch-metric-learning/"
# optimizer = true
# ///
"""Embeddings by a triplet loss with a miner, and a proxy loss that has parameters of its own."""

import torch
import torch.nn as nn
from pytorch_metric_learning import distances, losses, miners, reducers

torch.manual_seed(0)
labels = torch.arange(6).repeat(40)
data = torch.randn(6, 20)[labels] + 0.7 * torch.randn(240, 20)

model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16))
distance = distances.CosineSimilarity()
reducer = reducers.ThresholdReducer(low=0)
triplet_loss = losses.TripletMarginLoss(margin=0.2, distance=distance, reducer=reducer)
mining_func = miners.TripletMarginMiner(margin=0.2, distance=distance, type_of_triplets="semihard")
proxy_loss = losses.ProxyAnchorLoss(num_classes=6, embedding_size=16)

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_optimizer = torch.optim.Adam(proxy_loss.parameters(), lr=1e-2)

for epoch in range(3):
    for rows in torch.randperm(240).split(60):
        optimizer.zero_grad()
        loss_optimizer.zero_grad()
        embeddings = model(data[rows])
        indices_tuple = mining_func(embeddings, labels[rows])
        loss = triplet_loss(embeddings, labels[rows], indices_tuple)
        loss = loss + 0.1 * proxy_loss(embeddings, labels[rows])
        loss.backward()
        optimizer.step()
        loss_optimizer.step()
    print(f"Epoch {epoch} Loss = {loss.item():.3f}, mined {mining_func.num_triplets} triplets")
