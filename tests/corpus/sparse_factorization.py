# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Recommender systems"
# source = "https://blog.ethanrosenthal.com/2017/06/20/matrix-factorization-in-pytorch/"
# optimizer = true
# ///
"""Matrix factorisation with sparse embeddings: SparseAdam touches only the rows of the batch."""

import torch

torch.manual_seed(0)
n_users, n_items, n_factors = 60, 40, 8
true_users, true_items = torch.randn(n_users, 4), torch.randn(n_items, 4)
users = torch.randint(n_users, (2000,))
items = torch.randint(n_items, (2000,))
ratings = (true_users[users] * true_items[items]).sum(1)


class MatrixFactorization(torch.nn.Module):
    def __init__(self, n_users, n_items, n_factors):
        super().__init__()
        self.user_factors = torch.nn.Embedding(n_users, n_factors, sparse=True)
        self.item_factors = torch.nn.Embedding(n_items, n_factors, sparse=True)
        self.user_biases = torch.nn.Embedding(n_users, 1, sparse=True)
        self.item_biases = torch.nn.Embedding(n_items, 1, sparse=True)

    def forward(self, user, item):
        pred = self.user_biases(user) + self.item_biases(item)
        pred += (self.user_factors(user) * self.item_factors(item)).sum(dim=1, keepdim=True)
        return pred.squeeze()


model = MatrixFactorization(n_users, n_items, n_factors)
loss_func = torch.nn.MSELoss()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)

for epoch in range(5):
    total = 0.0
    for rows in torch.randperm(len(ratings)).split(50):
        optimizer.zero_grad()
        prediction = model(users[rows], items[rows])
        loss = loss_func(prediction, ratings[rows])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    print(f"epoch {epoch}: {total / len(ratings):.3f}")
