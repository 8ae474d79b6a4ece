# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "knowledge distillation"
# source = "https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html"
# optimizer = true
# ///
"""A small student learns the softened outputs of a frozen teacher and the labels."""

import torch
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(42)
inputs = torch.randn(256, 20)
labels = (inputs @ torch.randn(20, 5)).argmax(1)
train_loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(inputs, labels), batch_size=32, shuffle=True
)
T, soft_target_loss_weight, ce_loss_weight = 2, 0.25, 0.75


def train(model, train_loader, epochs, learning_rate):
    ce_loss = nn.CrossEntropyLoss()
    adam = optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    for _ in range(epochs):
        for x, y in train_loader:
            adam.zero_grad()
            ce_loss(model(x), y).backward()
            adam.step()


@torch.no_grad()
def accuracy(model):
    model.eval()
    return (model(inputs).argmax(1) == labels).float().mean().item()


def train_knowledge_distillation(teacher, student, train_loader, epochs, learning_rate):
    ce_loss = nn.CrossEntropyLoss()
    optimizer = optim.Adam(student.parameters(), lr=learning_rate)
    teacher.eval()
    student.train()
    for epoch in range(epochs):
        running_loss = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            with torch.no_grad():
                teacher_logits = teacher(x)
            student_logits = student(x)
            soft_targets = F.softmax(teacher_logits / T, dim=-1)
            soft_prob = F.log_softmax(student_logits / T, dim=-1)
            soft_targets_loss = F.kl_div(soft_prob, soft_targets, reduction="batchmean") * T**2
            label_loss = ce_loss(student_logits, y)
            loss = soft_target_loss_weight * soft_targets_loss + ce_loss_weight * label_loss
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(f"Epoch {epoch + 1}/{epochs}, Loss: {running_loss / len(train_loader)}")


teacher = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 5))
student = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 5))
train(teacher, train_loader, epochs=2, learning_rate=0.01)
print(f"Teacher accuracy: {accuracy(teacher):.2f}")
train_knowledge_distillation(teacher, student, train_loader, epochs=3, learning_rate=0.01)
print(f"Student accuracy: {accuracy(student):.2f}")
