// The console's own script: keys, and manners for what refreshes itself.
// Pages work without it, except that nothing is live then.
"use strict";

const typing = (target) =>
  target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);

// --- Keys ---------------------------------------------------------------------------------------

let goPressedAt = 0;
const GO_WITHIN_MS = 1500;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const now = event.timeStamp;
  if (goPressedAt && now - goPressedAt < GO_WITHIN_MS) {
    goPressedAt = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      window.location.assign(link.href);
    }
    return;
  }
  goPressedAt = event.key === "g" ? now : 0;
  if (event.key === "/") {
    const search = document.getElementById("searchbar");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  } else if (event.key === "?") {
    const keys = document.getElementById("keys");
    if (keys && !keys.open) keys.showModal();
  }
});

// --- Live parts: only while somebody looks, never under a selection, not after a sign-out --------

let signedOut = false;

const selecting = (part) => {
  const selection = window.getSelection();
  return Boolean(
    selection && !selection.isCollapsed && part.contains(selection.anchorNode)
  );
};

document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.target.closest("[data-live]");
  if (!part) return;
  const always = part.dataset.live === "always";
  const busy = part.contains(document.activeElement) || part.matches(":hover");
  if (signedOut || document.hidden || (!always && (busy || selecting(part)))) {
    event.preventDefault();
  }
});

document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  if (signedOut) return;
  if (status === 401 || status === 403) {
    signedOut = true;
    document.body.classList.add("signed-out");
    const note = document.createElement("p");
    note.className = "banner banner-error";
    note.setAttribute("role", "alert");
    note.textContent = "You are signed out; this page no longer refreshes itself. ";
    const link = document.createElement("a");
    link.href = window.location.href;
    link.textContent = "Sign in again";
    note.append(link);
    document.getElementById("content-start").prepend(note);
  }
});

// --- Countdowns: tick between refreshes, by the server's seconds and not by this machine's clock --


const tick = () => {
  for (const node of document.querySelectorAll("[data-seconds-left]")) {
    node.dataset.seenAt ??= String(performance.now());
    const passed = (performance.now() - Number(node.dataset.seenAt)) / 1000;
    const left = Math.round(Number(node.dataset.secondsLeft) - passed);
    const size = Math.abs(left);
    const text = `${Math.floor(size / 60)}:${String(size % 60).padStart(2, "0")}`;
    node.textContent = left >= 0 ? text : `over since ${text}`;
    node.classList.toggle("over", left < 0);
  }
};

window.setInterval(tick, 1000);
tick();
