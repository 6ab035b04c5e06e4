"""A headless Chromium for tests, driven through its driver with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts" / "browser"


class NoBrowser(Exception):
    """Why there is none; tests skip with it."""


class Browser:
    """One window of its own; `close` ends the driver and the browser."""

    def __init__(self, profile: Path) -> None:
        found = subprocess.run([str(SCRIPT)], capture_output=True, text=True, timeout=700, check=False)
        if found.returncode:
            raise NoBrowser(found.stderr.strip().splitlines()[-1] if found.stderr.strip() else "scripts/browser failed")
        program, driver = found.stdout.split()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._driver = subprocess.Popen(
            [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._address = f"http://127.0.0.1:{port}"
        try:
            self._wait()
            self._start(program, profile)
        except Exception as error:
            self._end()
            raise NoBrowser(f"{program} does not start here: {error}") from error

    def _wait(self) -> None:
        for _ in range(150):
            try:
                if self._send("GET", "/status")["ready"]:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise NoBrowser("the driver did not answer within 30 seconds")

    def _start(self, program: str, profile: Path) -> None:
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                     "--disable-background-networking", f"--user-data-dir={profile}"]  # fmt: skip
        wanted = {
            "goog:chromeOptions": {"binary": program, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.loads(error.read())["value"]["message"].splitlines()[0]) from None

    def open(self, path: Path) -> None:
        """Returns when the whole file was read: on a busy machine the driver may answer before that."""
        self._send("POST", f"{self._session}/url", {"url": path.resolve().as_uri()})
        for _ in range(300):
            if self.run("return document.readyState") == "complete":
                return
            time.sleep(0.1)
        raise RuntimeError(f"{path} was not read within 30 seconds")

    def run(self, script: str) -> Any:
        """The value of a function body."""
        return self._send("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        """As a user would: scrolled into view, by the pointer."""
        found = self._send("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._send("POST", f"{self._session}/element/{next(iter(found.values()))}/click", {})

    def hover(self, selector: str) -> None:
        found = self._send("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": found}
        self._send(
            "POST",
            f"{self._session}/actions",
            {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]},
        )

    def devtools(self, command: str, **params: Any) -> Any:
        return self._send("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": params})

    def resize(self, width: int, height: int) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def colours(self, scheme: str) -> None:
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def log(self, kind: str) -> list[dict[str, Any]]:
        """`browser` (console) or `performance` (among others every request) since the last call."""
        return self._send("POST", f"{self._session}/se/log", {"type": kind})

    def requests(self) -> list[str]:
        """Addresses the page asked for since the last call; what the browser loads for its own pages is not asked by it."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [address for address in asked if not address.startswith("chrome://")]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        params: dict[str, Any] = {"captureBeyondViewport": True} if whole else {}
        if whole:
            width, height = self.run("const e = document.documentElement; return [e.clientWidth, e.scrollHeight];")
            params["clip"] = {"x": 0, "y": 0, "width": width, "height": min(height, 16_000), "scale": 1}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.devtools("Page.captureScreenshot", format="png", **params)["data"]))

    def pdf_pages(self) -> int:
        """Pages of the printed page."""
        data = base64.b64decode(self.devtools("Page.printToPDF", printBackground=False)["data"])
        return data.count(b"/Type /Page\n") or data.count(b"/Type /Page ") or data.count(b"/Type/Page")

    def close(self) -> None:
        try:
            self._send("DELETE", self._session)
        finally:
            self._end()

    def _end(self) -> None:
        self._driver.terminate()
        try:
            self._driver.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._driver.kill()
