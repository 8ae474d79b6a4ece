# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "updates by hand"
# source = "https://docs.pytorch.org/tutorials/intermediate/char_rnn_classification_tutorial.html"
# optimizer = false
# ///
"""Names are classified by a recurrent network; the loop adds the gradients to p.data itself."""

import torch
from torch import nn

torch.manual_seed(0)
letters = "abcdefghijklmnopqrstuvwxyz"
names = {
    "Italian": ["rossi", "bianchi", "ricci", "moretti"],
    "Dutch": ["vandijk", "devries", "jansen", "bakker"],
}
pairs = [(name, c) for c, group in enumerate(names.values()) for name in group]


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return self.softmax(self.h2o(hidden)), hidden


rnn = RNN(len(letters), 24, len(names))
criterion = nn.NLLLoss()
learning_rate = 0.05


def train(category, line):
    hidden = torch.zeros(1, rnn.hidden_size)
    rnn.zero_grad()
    for letter in line:
        one_hot = torch.zeros(1, len(letters))
        one_hot[0][letters.index(letter)] = 1
        output, hidden = rnn(one_hot, hidden)
    loss = criterion(output, torch.tensor([category]))
    loss.backward()
    # Add parameters' gradients to their values, multiplied by learning rate
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return loss.item()


for epoch in range(6):
    total = sum(train(category, name) for name, category in pairs)
    print(f"epoch {epoch}: loss {total / len(pairs):.4f}")
