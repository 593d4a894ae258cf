"use strict";
// What the page can do beyond reading: sort tables, slide the threshold. It is complete without.
(() => {
  const number = (text) => {
    const match = text.replace(/\u2212/g, "-").replace(/,(?=\d{3})/g, "").match(/[-+]?\d*\.?\d+(?:e[-+]?\d+)?/i);
    return match ? parseFloat(match[0]) : NaN;
  };
  const compare = (a, b) => {
    if (a.empty || b.empty) return a.empty - b.empty; // what is missing stays last
    const both = !Number.isNaN(a.number) && !Number.isNaN(b.number);
    return both ? a.number - b.number : a.text.localeCompare(b.text);
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const now = { ascending: "descending", descending: "none" }[head.ariaSort] || "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (now !== "none") head.setAttribute("aria-sort", now);
        const sign = now === "descending" ? -1 : 1;
        const keyed = rows.map((row) => {
          const text = row.cells[column].textContent.trim();
          const label = column === 0 && !/^[-+]?[\d.]/.test(text);
          return { row, text, number: label ? NaN : number(text), empty: text === "" || text === "–" };
        });
        if (now !== "none") {
          keyed.sort((a, b) => (a.empty || b.empty ? compare(a, b) : sign * compare(a, b)));
        }
        body.append(...keyed.map((one) => one.row));
      });
    });
  };
  document.querySelectorAll(".scroll > table").forEach((table) => {
    if (table.tHead && table.tBodies[0].rows.length > 2) sortable(table);
  });
  document.querySelectorAll(".explorer").forEach((explorer) => {
    const steps = explorer.querySelector(".steps");
    const radios = [...steps.querySelectorAll("input")];
    const slide = document.createElement("input");
    slide.type = "range";
    slide.className = "slide";
    slide.min = 0;
    slide.max = radios.length - 1;
    slide.setAttribute("aria-label", explorer.querySelector("legend").textContent.trim());
    const told = () => {
      const at = radios.findIndex((one) => one.checked);
      slide.value = at;
      slide.setAttribute("aria-valuetext", radios[at].getAttribute("aria-label"));
    };
    slide.addEventListener("input", () => { radios[slide.value].checked = true; told(); });
    radios.forEach((one) => one.addEventListener("change", told));
    told();
    steps.hidden = true;
    steps.style.display = "none";
    steps.after(slide);
  });
})();
