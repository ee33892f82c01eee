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
