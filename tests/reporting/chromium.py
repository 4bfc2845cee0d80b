"""Headless Chromium for tests, over its debugging pipe: no port, no driver program, no further package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
TIMEOUT = 60  # seconds for one answer


def find():
    """Return the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """One tab of a browser of its own, with an empty profile."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and writes to descriptor 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        command = [find(), *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._buffer, self._session = 0, b"", None
        self.events = []
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1300, height=900, dark=False):
        """Open a file and wait until it is loaded."""
        self.events.clear()
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        deadline = time.monotonic() + TIMEOUT
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline, "the page does not load"
            self.events.append(self._next())

    def resize(self, width, height):
        """Set the size of the window in pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def run(self, code):
        """Return the value of a JavaScript expression; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        """Press a key such as "ArrowRight", "Home" or "Tab"."""
        codes = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        if key == "Enter":
            named["text"] = "\r"
        self.send("Input.dispatchKeyEvent", type="keyDown", **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", **named)

    def screenshot(self, path, whole=True):
        """Write a picture of the page, or of the visible part of it."""
        image = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(image["data"]))

    def problems(self):
        """Return console errors, warnings, exceptions and requests to other places than the file."""
        self.run("1")  # events that are on their way
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            bad_call = method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning")
            if bad_call or method in ("Runtime.exceptionThrown", "Log.entryAdded"):
                found.append(params)
            if method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "about:", "data:")):
                    found.append(url)
        return found

    def close(self):
        """End the browser."""
        os.close(self._write)
        os.close(self._read)
        self.process.terminate()
        self.process.wait(TIMEOUT)
        self.profile.cleanup()

    def _next(self):
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
