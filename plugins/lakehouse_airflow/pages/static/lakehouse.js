"use strict";

// Starts a run by Airflow's own API, with the cookie of the user's session.
async function start(form, status) {
  const button = form.querySelector("button");
  button.disabled = true;
  status.textContent = "The run is being started.";
  try {
    const answer = await fetch(form.dataset.api, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: form.dataset.body,
    });
    const result = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const detail = typeof result.detail === "string" ? result.detail : JSON.stringify(result.detail ?? "");
      throw new Error(`Airflow has not started the run (${answer.status}): ${detail}`);
    }
    const link = document.createElement("a");
    link.href = form.dataset.run + encodeURIComponent(result.dag_run_id);
    link.className = "airflow";
    link.textContent = `The run ${result.dag_run_id}`;
    status.replaceChildren(link, ` is ${result.state}.`);
  } catch (error) {
    status.textContent = error.message;
    button.disabled = false;
  }
}

const form = document.querySelector("form[data-api]");
if (form) {
  form.querySelector("button").disabled = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    start(form, document.getElementById("status"));
  });
}

// A large table is measured by a second request, and its answer replaces the page.
async function measure(notice) {
  const status = document.createElement("span");
  status.textContent = " It is being measured.";
  notice.append(status);
  try {
    const answer = await fetch(notice.dataset.measure, { credentials: "same-origin", headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok) throw new Error(page.querySelector(".notice")?.textContent ?? `The answer is ${answer.status}.`);
    document.querySelector("main").replaceWith(page.querySelector("main"));
  } catch (error) {
    status.textContent = ` That has failed: ${error.message}`;
  }
}

const notice = document.querySelector("[data-measure]");
if (notice) measure(notice);

// Airflow shows these pages in a frame, which may not leave it. A page of Airflow replaces Airflow's page, not the frame.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.airflow");
  if (!link || window.parent === window || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  try {
    const outer = window.parent.document.createElement("a");
    outer.href = link.href;
    window.parent.document.body.append(outer);
    outer.click();
    outer.remove();
    event.preventDefault();
  } catch {
    // The frame belongs to another server; the link opens in the frame.
  }
});
