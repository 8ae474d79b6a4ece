# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Energy-based models"
# source = "https://github.com/GabrielBianconi/pytorch-rbm"
# optimizer = false
# ///
"""A restricted Boltzmann machine learns by contrastive divergence, without any backward pass."""

import torch

torch.manual_seed(0)
prototypes = torch.bernoulli(torch.full((4, 20), 0.5))
train = prototypes[torch.randint(4, (400,))]
train = torch.where(torch.rand_like(train) < 0.05, 1 - train, train)


class RBM:
    def __init__(self, num_visible, num_hidden, k, learning_rate=0.05, momentum=0.5):
        self.k = k
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weights = torch.randn(num_visible, num_hidden) * 0.1
        self.visible_bias = torch.ones(num_visible) * 0.5
        self.hidden_bias = torch.zeros(num_hidden)
        self.weights_momentum = torch.zeros(num_visible, num_hidden)

    def sample_hidden(self, visible_probabilities):
        return torch.sigmoid(visible_probabilities @ self.weights + self.hidden_bias)

    def sample_visible(self, hidden_probabilities):
        return torch.sigmoid(hidden_probabilities @ self.weights.t() + self.visible_bias)

    def contrastive_divergence(self, input_data):
        # Positive phase
        positive_hidden = self.sample_hidden(input_data)
        hidden_activations = (positive_hidden >= torch.rand_like(positive_hidden)).float()
        positive_associations = input_data.t() @ hidden_activations
        # Negative phase
        for _ in range(self.k):
            visible = self.sample_visible(hidden_activations)
            hidden = self.sample_hidden(visible)
            hidden_activations = (hidden >= torch.rand_like(hidden)).float()
        negative_associations = visible.t() @ hidden
        # Update parameters
        self.weights_momentum *= self.momentum
        self.weights_momentum += positive_associations - negative_associations
        batch_size = input_data.size(0)
        self.weights += self.weights_momentum * self.learning_rate / batch_size
        self.visible_bias += (input_data - visible).mean(0) * self.learning_rate
        self.hidden_bias += (positive_hidden - hidden).mean(0) * self.learning_rate
        return ((input_data - visible) ** 2).sum()


rbm = RBM(20, 8, k=1)
for epoch in range(10):
    epoch_error = sum(rbm.contrastive_divergence(batch) for batch in train.split(40))
    print(f"Epoch Error (epoch={epoch}): {epoch_error:.4f}")
