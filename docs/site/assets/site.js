/* A table that is wider than its box scrolls; the keyboard reaches it only then. */
(() => {
  const boxes = document.querySelectorAll(".md-typeset .scroll, .md-typeset .output, .md-typeset .formula, .md-typeset pre > code");
  const look = () => {
    for (const box of boxes) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  look();
  addEventListener("resize", look);
})();
