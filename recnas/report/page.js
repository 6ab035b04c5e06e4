// Sorting, figures under the pointer, and zoom. The page is whole without this script.
(function () {
  "use strict";
  var each = function (selector, call) { Array.prototype.forEach.call(document.querySelectorAll(selector), call); };

  // Tables: a click on a heading sorts, another turns the order round. Unknown values stay last.
  each("table.sortable", function (table) {
    each("#" + table.id + " thead th", function (th, column) {
      var button = document.createElement("button");
      button.type = "button";
      while (th.firstChild) { button.appendChild(th.firstChild); }
      th.appendChild(button);
      button.addEventListener("click", function () {
        var up = th.getAttribute("aria-sort") !== "ascending";
        each("#" + table.id + " thead th", function (other) { other.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", up ? "ascending" : "descending");
        var body = table.tBodies[0];
        var rows = Array.prototype.map.call(body.rows, function (row) {
          var cell = row.cells[column];
          var given = cell.getAttribute("data-v");
          return { row: row, value: given === null ? cell.textContent : given === "" ? null : Number(given) };
        });
        rows.sort(function (a, b) {
          if (a.value === null || b.value === null) { return (a.value === null) - (b.value === null); }
          var order = typeof a.value === "number" && typeof b.value === "number" ? a.value - b.value
            : String(a.value).localeCompare(String(b.value));
          return up ? order : -order;
        });
        rows.forEach(function (entry) { body.appendChild(entry.row); });
      });
    });
  });

  // Figures under the pointer: what a mark's title says, at once and beside the pointer.
  var tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);
  each("svg .mark > title", function (title) {
    var mark = title.parentNode;
    mark.setAttribute("data-tip", title.textContent);
    mark.setAttribute("aria-label", title.textContent);
    mark.removeChild(title);
  });
  document.addEventListener("pointermove", function (event) {
    var mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !mark;
    if (!mark) { return; }
    tip.textContent = mark.getAttribute("data-tip");
    var left = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(4, left) + window.scrollX + "px";
    tip.style.top = event.clientY + window.scrollY + 16 + "px";
  });

  // Zoom: drag over a chart to look closer, double-click to see all of it again; the button makes it wide.
  each("figure", function (figure) {
    var svg = figure.querySelector("svg");
    var tools = figure.querySelector(".tools");
    if (!svg || !tools) { return; }
    var whole = svg.getAttribute("viewBox");
    var button = document.createElement("button");
    button.type = "button";
    button.className = "tool";
    button.textContent = "larger";
    button.addEventListener("click", function () {
      button.textContent = figure.classList.toggle("big") ? "smaller" : "larger";
      svg.setAttribute("viewBox", whole);
    });
    tools.insertBefore(button, tools.firstChild);
    var start = null;
    var place = function (event) {
      var box = svg.getBoundingClientRect();
      var now = svg.getAttribute("viewBox").split(/\s+/).map(Number);
      return { x: now[0] + (event.clientX - box.left) / box.width * now[2], y: now[1] + (event.clientY - box.top) / box.height * now[3] };
    };
    svg.addEventListener("pointerdown", function (event) { if (event.pointerType === "mouse") { start = place(event); } });
    svg.addEventListener("pointerup", function (event) {
      if (!start) { return; }
      var end = place(event);
      var wide = Math.abs(end.x - start.x);
      var tall = Math.abs(end.y - start.y);
      if (wide > 12 && tall > 12) {
        svg.setAttribute("viewBox", [Math.min(start.x, end.x), Math.min(start.y, end.y), wide, tall].join(" "));
      }
      start = null;
    });
    svg.addEventListener("dblclick", function () { svg.setAttribute("viewBox", whole); });
  });

  window.addEventListener("beforeprint", function () { each("details", function (d) { d.open = true; }); });
}());
