// One key for each button or link that has data-key; without this script, accesskey does the same.
"use strict";
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=hidden]), select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  for (const one of document.querySelectorAll("[data-key]")) {
    if (one.dataset.key === event.key.toLowerCase()) {
      event.preventDefault();
      one.click();
      return;
    }
  }
});
document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes"; // two presses are one label
});
window.addEventListener("pageshow", () => {
  for (const one of document.querySelectorAll("form")) delete one.dataset.sent;
});
