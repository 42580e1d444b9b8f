#!/bin/sh
# The sandbox of the app needs user namespaces, or, where a system forbids them, its helper with root's right.
set -e
ln -sf '/opt/${sanitizedProductName}/${executable}' '/usr/bin/${executable}'
ln -sf '/opt/${sanitizedProductName}/resources/bin/covey' '/usr/bin/covey'
chmod 4755 '/opt/${sanitizedProductName}/chrome-sandbox' || true
if command -v update-mime-database >/dev/null 2>&1; then update-mime-database /usr/share/mime || true; fi
if command -v update-desktop-database >/dev/null 2>&1; then update-desktop-database /usr/share/applications || true; fi
