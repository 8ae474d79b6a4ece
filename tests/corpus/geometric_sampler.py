# /// script
# dependencies = ["torch-geometric"]
# [tool.corpus]
# environment = "science"
# field = "Graphs"
# source = "https://pytorch-geometric.readthedocs.io/en/latest/modules/loader.html"
# optimizer = true
# ///
"""GraphSAGE on random node subsets of a larger graph, and a graph classifier on mini-batches."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader, RandomNodeLoader
from torch_geometric.nn import GINConv, GraphSAGE, global_add_pool
from torch_geometric.utils import erdos_renyi_graph

torch.manual_seed(0)
edge_index = erdos_renyi_graph(300, 0.03)
x = torch.randn(300, 8)
data = Data(x=x, edge_index=edge_index, y=(x[:, 0] > 0).long())

sage = GraphSAGE(in_channels=8, hidden_channels=16, num_layers=2, out_channels=2)
optimizer = torch.optim.Adam(sage.parameters(), lr=0.01)
for epoch in range(4):
    for batch in RandomNodeLoader(data, num_parts=4, shuffle=True):
        optimizer.zero_grad()
        out = sage(batch.x, batch.edge_index)
        loss = F.cross_entropy(out, batch.y)
        loss.backward()
        optimizer.step()
print(f"nodes: loss {loss.item():.4f}")

graphs = []
for label in torch.randint(2, (60,)).tolist():
    edges = erdos_renyi_graph(12, 0.2 + 0.3 * label)
    graphs.append(Data(x=torch.ones(12, 1), edge_index=edges, y=torch.tensor([label])))


class GIN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        mlp = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
        self.conv = GINConv(mlp, train_eps=True)
        self.lin = torch.nn.Linear(16, 2)

    def forward(self, x, edge_index, batch):
        return self.lin(global_add_pool(self.conv(x, edge_index).relu(), batch) / 12)


gin = GIN()
optimizer = torch.optim.Adam(gin.parameters(), lr=0.02)
for epoch in range(5):
    for batch in DataLoader(graphs, batch_size=12, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(gin(batch.x, batch.edge_index, batch.batch), batch.y)
        loss.backward()
        optimizer.step()
print(f"graphs: loss {loss.item():.4f}")
