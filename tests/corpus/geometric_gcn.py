# /// script
# dependencies = ["torch-geometric"]
# [tool.corpus]
# environment = "science"
# field = "Graphs"
# source = "https://pytorch-geometric.readthedocs.io/en/latest/get_started/introduction.html"
# optimizer = true
# ///
"""A graph convolutional network labels the nodes of a random graph with communities."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import stochastic_blockmodel_graph

torch.manual_seed(0)
num_classes, per_class = 3, 40
edge_index = stochastic_blockmodel_graph(
    [per_class] * num_classes, torch.full((3, 3), 0.02) + 0.1 * torch.eye(3)
)
y = torch.arange(num_classes).repeat_interleave(per_class)
x = F.one_hot(y, num_classes).float() + torch.randn(len(y), num_classes)
data = Data(x=x, edge_index=edge_index, y=y)
data.train_mask = torch.rand(len(y)) < 0.3


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList([GCNConv(3, 16), GCNConv(16, 16)])
        self.lin = torch.nn.Linear(16, num_classes)

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        for conv in self.convs:
            x = F.relu(conv(x, edge_index))
            x = F.dropout(x, p=0.2, training=self.training)
        return F.log_softmax(self.lin(x), dim=1)


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

model.train()
for epoch in range(60):
    optimizer.zero_grad()
    out = model(data)
    loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"epoch {epoch}: loss {loss.item():.4f}")

model.eval()
correct = (model(data).argmax(dim=1) == data.y)[~data.train_mask].float().mean()
print(f"Accuracy: {correct.item():.4f}")
