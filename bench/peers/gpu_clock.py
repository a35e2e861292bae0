# SPDX-License-Identifier: Apache-2.0
"""The clock and the power of the first GPU while something runs, as the driver's library says, ten times a second. As a program
it writes lines as `nvidia-smi --query-gpu=timestamp,clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active` does,
where there is no such program."""
import ctypes
import datetime
import statistics
import threading
import time

SM_CLOCK = 1  # NVML_CLOCK_SM


class Sampler:
    """Samples in a thread of its own between enter and exit; without a driver there are no samples."""

    def __init__(self, every=0.1):
        self.every, self.samples, self.ended, self.thread = every, [], threading.Event(), None
        self.library, self.device = opened()

    def read(self):
        """(MHz, watts)."""
        clock, power = ctypes.c_uint(0), ctypes.c_uint(0)
        known = self.library.nvmlDeviceGetClockInfo(self.device, SM_CLOCK, ctypes.byref(clock)) == 0
        known = self.library.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(power)) == 0 and known
        return (clock.value, power.value / 1000) if known else None

    def watch(self):
        while not self.ended.wait(self.every):
            sample = self.read()
            if sample:
                self.samples.append((time.monotonic(), *sample))

    def __enter__(self):
        if self.library is not None:
            self.thread = threading.Thread(target=self.watch, daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_):
        if self.thread is not None:
            self.ended.set()
            self.thread.join()

    def medians(self):
        """Of a result; null where nothing was sampled."""
        if not self.samples:
            return {"clock_mhz": None, "power_w": None}
        return {"clock_mhz": statistics.median(s[1] for s in self.samples), "power_w": statistics.median(s[2] for s in self.samples)}

    def near(self, moment):
        """(MHz, watts) of the sample nearest to a moment of time.monotonic(); (None, None) without any."""
        return min(self.samples, key=lambda s: abs(s[0] - moment))[1:] if self.samples else (None, None)


def opened():
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None, None
    device = ctypes.c_void_p()
    if library.nvmlInit_v2() != 0 or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0:
        return None, None
    return library, device


def lines():
    """For ever, or none without a driver."""
    library, device = opened()
    clock = Sampler()
    reasons = getattr(library, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
    while library is not None:
        sample, celsius, held = clock.read(), ctypes.c_uint(0), ctypes.c_ulonglong(0)
        known = library.nvmlDeviceGetTemperature(device, 0, ctypes.byref(celsius)) == 0
        if reasons:
            reasons(device, ctypes.byref(held))
        if sample and known:
            now = datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
            yield f"{now}, {sample[0]}, {sample[1]:.2f}, {celsius.value}, 0x{held.value:016x}"
        time.sleep(clock.every)


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
