# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "recurrent networks"
# source = "https://pytorch.org/tutorials/intermediate/char_rnn_classification_tutorial.html"
# optimizer = false
# kept_out = true
# ///
"""A character RNN tells the language of a surname; its weights are updated by hand."""

import random
import string

import torch
import torch.nn as nn

torch.manual_seed(1)
random.seed(1)
all_letters = string.ascii_lowercase
n_letters = len(all_letters)
category_lines = {
    "Italian": ["rossi", "bianchi", "esposito", "ricci", "marino", "greco"],
    "Polish": ["nowak", "kowalski", "wojcik", "kaminski", "zielinski"],
    "Irish": ["murphy", "kelly", "byrne", "ryan", "doyle", "walsh"],
}
all_categories = list(category_lines)


def lineToTensor(line):
    tensor = torch.zeros(len(line), 1, n_letters)
    for li, letter in enumerate(line):
        tensor[li][0][all_letters.index(letter)] = 1
    return tensor


def randomTrainingExample():
    category = random.choice(all_categories)
    line = random.choice(category_lines[category])
    category_tensor = torch.tensor([all_categories.index(category)], dtype=torch.long)
    return category_tensor, lineToTensor(line)


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return self.softmax(self.i2o(hidden)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


rnn = RNN(n_letters, 32, len(all_categories))
criterion = nn.NLLLoss()
learning_rate = 0.05
params = list(rnn.parameters())


def train(category_tensor, line_tensor):
    hidden = rnn.initHidden()
    rnn.zero_grad()
    for i in range(line_tensor.size()[0]):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    # Add parameters' gradients to their values, multiplied by learning rate
    for p in params:
        if p.grad is not None:
            p.data.add_(p.grad.data, alpha=-learning_rate)
    return loss.item()


current_loss = 0
for it in range(1, 301):
    current_loss += train(*randomTrainingExample())
    if it % 100 == 0:
        print(f"{it} {current_loss / 100:.4f}")
        current_loss = 0
