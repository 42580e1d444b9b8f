@echo off
setlocal
set ELECTRON_RUN_AS_NODE=1
"%~dp0..\..\Covey.exe" "%~dp0..\app.asar\dist\covey.js" %*
exit /b %ERRORLEVEL%
