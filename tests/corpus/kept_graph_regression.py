# /// script
# dependencies = ["torch-geometric"]
# [tool.corpus]
# environment = "science"
# field = "graphs"
# source = "https://pytorch-geometric.readthedocs.io/en/latest/get_started/colabs.html"
# optimizer = true
# kept_out = true
# ///
"""Graph convolutions predict a positive number of each small random graph."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_add_pool
from torch_geometric.utils import erdos_renyi_graph

torch.manual_seed(12345)
dataset = []
for _ in range(48):
    n = int(torch.randint(5, 10, (1,)))
    x = torch.rand(n, 4)
    dataset.append(Data(x=x, edge_index=erdos_renyi_graph(n, 0.4), y=x[:, 0].sum().view(1)))
train_loader = DataLoader(dataset, batch_size=12, shuffle=True)


class GNN(torch.nn.Module):
    def __init__(self, hidden_channels, num_layers=2):
        super().__init__()
        self.convs = torch.nn.ModuleList()
        self.convs.append(GraphConv(4, hidden_channels))
        for _ in range(num_layers - 1):
            self.convs.append(GraphConv(hidden_channels, hidden_channels))
        self.lin = torch.nn.Linear(hidden_channels, 1)

    def forward(self, x, edge_index, batch):
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        x = global_add_pool(x, batch)
        x = self.lin(x)
        return F.softplus(x).squeeze(1)


model = GNN(hidden_channels=32)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.7, patience=3)


def train():
    model.train()
    loss_all = 0
    for data in train_loader:
        optimizer.zero_grad()
        out = model(data.x, data.edge_index, data.batch)
        loss = F.mse_loss(out, data.y)
        loss.backward()
        optimizer.step()
        loss_all += data.num_graphs * loss.item()
    return loss_all / len(dataset)


for epoch in range(1, 7):
    loss = train()
    scheduler.step(loss)
    print(f"Epoch: {epoch:03d}, Loss: {loss:.4f}")
