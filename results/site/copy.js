"use strict";

/* A button beside each piece of code that copies it. Without scripts the code can be selected. */

const status = document.getElementById("status");

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
    status.textContent = "The code is copied.";
  } catch {
    getSelection().selectAllChildren(code);
    status.textContent = "The code is selected.";
  }
}

for (const mend of document.querySelectorAll(".mend")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy: ${mend.textContent.trim().split("\n")[0]}`);
  button.addEventListener("click", () => copy(mend.querySelector("pre"), button));
  mend.append(button);
}
