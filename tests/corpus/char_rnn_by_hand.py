# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Hand-written loops"
# source = "https://pytorch.org/tutorials/intermediate/char_rnn_classification_tutorial.html"
# optimizer = false
# ///
"""A recurrent network written by hand classifies names; its parameters move by p.data.add_."""

import random

import torch
import torch.nn as nn

random.seed(0)
torch.manual_seed(0)

category_lines = {
    "Italian": ["rossi", "bianchi", "ferrari", "esposito", "romano"],
    "Dutch": ["janssen", "devries", "vandijk", "bakker", "visser"],
    "Japanese": ["sato", "suzuki", "takahashi", "tanaka", "watanabe"],
}
all_categories = list(category_lines)
all_letters = "abcdefghijklmnopqrstuvwxyz"
n_letters = len(all_letters)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, n_letters)
    for li, letter in enumerate(line):
        tensor[li][0][all_letters.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        output = self.softmax(self.h2o(hidden))
        return output, hidden


rnn = RNN(n_letters, 32, len(all_categories))
criterion = nn.NLLLoss()
learning_rate = 0.05


def train(category_tensor, line_tensor):
    hidden = torch.zeros(1, rnn.hidden_size)
    rnn.zero_grad()
    for i in range(line_tensor.size()[0]):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    # Add parameters' gradients to their values, multiplied by learning rate
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return output, loss.item()


current_loss = 0
for iteration in range(1, 301):
    category = random.choice(all_categories)
    line = random.choice(category_lines[category])
    category_tensor = torch.tensor([all_categories.index(category)])
    output, loss = train(category_tensor, line_to_tensor(line))
    current_loss += loss
    if iteration % 100 == 0:
        print(iteration, current_loss / 100)
        current_loss = 0
